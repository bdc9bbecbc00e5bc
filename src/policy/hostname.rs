//! Host names and ports as text, in one canonical form.
