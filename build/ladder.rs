//! A shorter way through a filter of many calls.

use seccompiler::{BpfProgram, sock_filter};

use super::{JMP_JA, JMP_JEQ_K, JMP_JGE_K, Result, give, jump};

/// Calls that are looked for one after the other, once the ladder has led to them.
const BLOCK: usize = 8;

/// Puts a ladder of comparisons before a chain of checks that stand in the order of their
/// numbers. The kernel walks a new filter once for every call there is, to learn which it lets
/// through, and that walk takes a good part of a launch where each passes the whole chain.
pub(super) fn laddered(chain: &[sock_filter]) -> Result<BpfProgram> {
    let mut checks: Vec<(u32, &[sock_filter])> = Vec::new();
    let mut rest = chain;
    while let [first, second, ..] = rest
        && first.code == JMP_JEQ_K
    {
        // Behind the first check of the arguments, if any, stand the jumps over each of them.
        let mut len = 2;
        while second.code == JMP_JA
            && let Some(over) = rest.get(len).filter(|over| over.code == JMP_JA)
        {
            len += 1 + usize::try_from(over.k)?;
        }
        let (check, after) = rest.split_at_checked(len).ok_or("a check is cut short")?;
        checks.push((first.k, check));
        rest = after;
    }
    let [otherwise] = rest else {
        return Err("the program ends otherwise than it did".into());
    };
    if !checks.is_sorted_by(|(one, _), (two, _)| one < two) {
        return Err("the checks are not in the order of their numbers".into());
    }
    let (mut ladder, mut body) = (BpfProgram::new(), BpfProgram::new());
    for (index, block) in checks.chunks(BLOCK).enumerate() {
        if let (1.., Some((number, _))) = (index, block.first()) {
            // The highest number is asked for first: over the rungs below and the blocks before.
            let over = sock_filter {
                code: JMP_JA,
                ..give(u32::try_from(ladder.len() + body.len())?)
            };
            ladder.splice(0..0, [jump(JMP_JGE_K, *number), over]);
        }
        body.extend(block.iter().flat_map(|(_, check)| check.iter().cloned()));
        body.push(otherwise.clone());
    }
    ladder.extend(body);
    Ok(ladder)
}
