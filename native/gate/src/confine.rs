//! Guardian and gate give up, before anything of a client reaches them, their user, every capability, and all system calls but
//! those that they make.
//!
//! The guardian gives up as much as the gate: a gate whose guardian dies becomes one. What takes root's rights is done before:
//! sockets and files in the run directory, the metrics port, the limit of descriptors, the large buffers of the first dispatch pairs.
//! Afterwards both read /proc, signal each other, and learn from kill(2) whether another user's process lives (EPERM says so too).

use std::collections::BTreeMap;

use anyhow::Context as _;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    clear_ambient_capability_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid, CapabilitySet, CapabilitySets,
};
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use trimtab_wire::gate::User;
use trimtab_wire::shared::now_ns;

/// Gives all of it up, for this process and those that it splits off.
///
/// # Errors
/// The kernel refuses a part; the process must not go on then.
pub fn enter(user: Option<User>) -> anyhow::Result<()> {
    // Finds the kernel's clock in this process's memory, for which a file is read; without it each look at the clock is a system call.
    let _ = now_ns();
    // Before Linux 4.3 there are none.
    let _ = clear_ambient_capability_set();
    if let Some(User { uid, gid }) = user {
        let (to, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        // This process has one thread, so its thread's ids are its own.
        set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(group, group, group))
            .and_then(|()| set_thread_res_uid(to, to, to))
            .with_context(|| format!("becoming user {uid} of group {gid}"))?;
    }
    let none = CapabilitySet::empty();
    let nothing = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, nothing).context("giving up capabilities")?;
    set_no_new_privs(true).context("no new privileges")?;
    apply_filter(&filter().context("seccomp filter")?).context("seccomp filter")
}

/// Everything else fails with EPERM, as it does for whoever has no right to it: a call that was forgotten here loses one answer, not all
/// connections.
fn filter() -> anyhow::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS
        .iter()
        .chain(&OLD)
        .map(|&call| (call, Vec::new()))
        .collect();
    for (call, argument, mask, value) in LIMITED {
        let only = SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(mask),
            value,
        )?;
        rules.insert(call, vec![SeccompRule::new(vec![only])?]);
    }
    let architecture = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture)?;
    Ok(filter.try_into()?)
}

const ALL_BITS: u64 = u32::MAX as u64;

/// Calls that one argument limits: its number, the bits of it that are compared, and what they must be.
const LIMITED: [(libc::c_long, u8, u64, u64); 4] = [
    // The next gate, and nothing else.
    (
        libc::SYS_clone,
        0,
        ALL_BITS,
        (libc::CLONE_FILES | libc::SIGCHLD) as u64,
    ),
    // /proc, to read.
    (
        libc::SYS_openat,
        2,
        (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64,
        0,
    ),
    // Memory that nothing can be executed from.
    (libc::SYS_mmap, 2, libc::PROT_EXEC as u64, 0),
    (libc::SYS_mprotect, 2, libc::PROT_EXEC as u64, 0),
];

#[cfg(target_arch = "x86_64")]
const OLD: [libc::c_long; 1] = [libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLD: [libc::c_long; 0] = [];

/// Calls that are made: by the gate itself, and by the standard library and the C library under it.
const CALLS: &[libc::c_long] = &[
    // Connections and messages.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_close,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Waiting.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_yield,
    // Guardian and gate.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Files of /proc, standard input and standard error.
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_read,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory, signals and random numbers of the libraries.
    libc::SYS_brk,
    libc::SYS_getrandom,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
];
