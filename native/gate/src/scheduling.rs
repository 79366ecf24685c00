//! How the kernel schedules the gate: for throughput, since nobody waits for it who does not wait for a worker too.
//!
//! A gate that shares its processor with the workers would run at each arrival, for one connection at a time: each
//! costs a change of process on the way in and one on the way out. As a batch process with slices of its own it lets
//! whoever runs go on, and then takes all that has come. On a processor with time to spare it runs at once, as before.

use std::mem::size_of;

/// Requested slice: longer than the kernel's own, so that the workers, with shorter ones, go first.
const SLICE_NS: u64 = 3_000_000;

/// `struct sched_attr` of sched_setattr(2), as its first version has it.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for it, for this process. Where the kernel refuses, or the operator has chosen a policy, all stays as it is.
pub fn favour_throughput() {
    // SAFETY: the call takes a number and writes nothing.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        return;
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_BATCH as u32,
        flags: 0,
        // SAFETY: as above. A priority of -1 and a failure look alike; the call does not fail for this process.
        nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        priority: 0,
        // Kernels before 6.12 leave it out of account.
        runtime_ns: SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the attributes live until the call returns, and their size is in them.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_becomes_batch_and_the_niceness_stays() {
        // A thread of its own: the policy is the thread's.
        std::thread::spawn(|| {
            // SAFETY: both calls take numbers and write nothing.
            let state = || unsafe {
                (
                    libc::sched_getscheduler(0),
                    libc::getpriority(libc::PRIO_PROCESS, 0),
                )
            };
            let (policy, nice) = state();
            favour_throughput();
            let expected = match policy {
                libc::SCHED_OTHER => libc::SCHED_BATCH,
                chosen => chosen,
            };
            assert_eq!(state(), (expected, nice));
        })
        .join()
        .unwrap();
    }
}
