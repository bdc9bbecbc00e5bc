//! Which addresses a name may lead to.
