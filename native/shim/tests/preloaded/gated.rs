//! Taking connections from a gate, and going on when it has gone. The gate is a thread of the test: what it calls goes round the hooks.

use std::ffi::c_int;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, listen, recv, socket_with, socketpair, AddressFamily, RecvFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use trimtab_wire::handoff::{
    self, Dispatch, Hello, Reclaim, Role, Welcome, GO_ON, LISTENER, LONGEST,
};
use trimtab_wire::shared::{now_ns, Shared, CLOSED, DISPATCHED, FLAG_PREEMPTIVE, FREE, HELD, IDLE};

use crate::inside::{self, closefrom, errno, forbid, gated, keep_for, listener, Served};

/// A gate that dispatches what the test says.
pub struct Gate<'a> {
    shared: &'a Shared,
    pub gate_end: OwnedFd,
    pub tcp: OwnedFd,
    hold: OwnedFd,
    door: Arc<OwnedFd>,
    workers: JoinHandle<Vec<OwnedFd>>,
}

/// A listener that the server has made, and the gate that has it.
pub fn gate(shared: &Shared) -> (TcpListener, Gate<'_>) {
    let mut made = None;
    let gate = gate_of(shared, || made = Some(listener()));
    (made.unwrap(), gate)
}

/// The gate that gets the listener which the server shows it.
pub fn gate_of(shared: &Shared, shows: impl FnOnce()) -> Gate<'_> {
    shared.header.generation.store(1, Relaxed);
    let door = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    let door = Arc::new(door.unwrap());
    bind(
        &door,
        &SocketAddrUnix::new(inside::handoff(shared)).unwrap(),
    )
    .unwrap();
    listen(&door, 16).unwrap();
    let (gate_end, worker_end) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    rustix::io::ioctl_fionbio(&worker_end, true).unwrap();
    let there = door.clone();
    let greets = std::thread::spawn(move || {
        // The listener's conversation is the first.
        let (conversation, tcp) = greet(&there).1.unwrap();
        let welcome = Welcome { generation: 1 }.encode();
        let passed = Some(worker_end.as_fd());
        handoff::send(conversation.as_fd(), &welcome, passed, SendFlags::empty()).unwrap();
        (tcp, conversation)
    });
    shows();
    let (tcp, hold) = greets.join().unwrap();
    let there = door.clone();
    let workers =
        std::thread::spawn(move || std::iter::from_fn(|| greet(&there).0).collect::<Vec<_>>());
    Gate {
        shared,
        gate_end,
        tcp,
        hold,
        door,
        workers,
    }
}

/// Lets a process in: a worker's conversation, or a listener's with its socket; neither when the door is shut.
pub fn greet(door: &OwnedFd) -> (Option<OwnedFd>, Option<(OwnedFd, OwnedFd)>) {
    let Ok(conversation) = accept_with(door, SocketFlags::CLOEXEC) else {
        return (None, None);
    };
    let mut bytes = [0; LONGEST];
    let (length, _) = recv(&conversation, &mut bytes, RecvFlags::empty()).unwrap();
    let hello = Hello::decode(&bytes[..length]).unwrap();
    handoff::send(conversation.as_fd(), &GO_ON, None, SendFlags::empty()).unwrap();
    if hello.role == Role::Worker {
        return (Some(conversation), None);
    }
    let how = RecvFlags::CMSG_CLOEXEC;
    let (length, tcp) = handoff::receive(conversation.as_fd(), &mut bytes, how).unwrap();
    assert_eq!(bytes[..length], LISTENER);
    (None, Some((conversation, tcp.unwrap())))
}

impl Gate<'_> {
    /// Accepts a connection and sends it to the workers in a slot.
    pub fn dispatch(&self, slot: u32) {
        let connection = accept_with(&self.tcp, SocketFlags::CLOEXEC).unwrap();
        let sequence = u64::from(slot) + 100;
        let place = self.shared.slot(slot).unwrap();
        assert!(place.advance(FREE, DISPATCHED));
        place.sequence.store(sequence, Relaxed);
        let mut peer = [0; 28];
        peer[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        let dispatch = Dispatch {
            slot,
            class: 0,
            sequence,
            arrival_ns: now_ns(),
            peer,
            peer_len: 16,
        };
        let passed = Some(connection.as_fd());
        let socket = self.gate_end.as_fd();
        handoff::send(socket, &dispatch.encode(), passed, SendFlags::empty()).unwrap();
        // Its number may be one that the shim still takes for another connection's.
        unsafe { rustix::io::close(connection.into_raw_fd()) };
    }

    /// A connection that was dispatched in a slot and accepted.
    pub fn served(&self, listener: &TcpListener, slot: u32) -> Served {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        self.dispatch(slot);
        let (served, _) = listener.accept().unwrap();
        let fd = served.into_raw_fd();
        Served { fd, client }
    }

    pub fn state(&self, slot: u32) -> u32 {
        self.shared.slot(slot).unwrap().state.load(Acquire)
    }

    /// What was said where a listener was shown: 0 when the last process has closed it.
    pub fn said(&self) -> rustix::io::Result<usize> {
        recv(&self.hold, &mut [0; 9], RecvFlags::DONTWAIT).map(|(length, _)| length)
    }

    pub fn released(&self) -> Vec<u32> {
        self.shared.take_released().collect()
    }

    /// Asks the process that has these slots to end their connections, in turn; nobody is at the door any more.
    pub fn wishes_back(self, slots: [u32; 2]) -> OwnedFd {
        let worker = self.die().remove(0);
        for slot in slots {
            let sequence = u64::from(slot) + 100;
            let wish = Reclaim { slot, sequence }.encode();
            handoff::send(worker.as_fd(), &wish, None, SendFlags::empty()).unwrap();
        }
        worker
    }

    /// Ends it, and returns the conversations that processes had with it.
    pub fn die(self) -> Vec<OwnedFd> {
        // Wakes the thread at the door.
        rustix::net::shutdown(&self.door, rustix::net::Shutdown::Both).unwrap();
        self.workers.join().unwrap()
    }
}

#[test]
fn a_connection_holds_its_slot_until_it_is_closed_and_the_gate_is_woken() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let mut served = gate.served(&listener, 5);
        let slot = shared.slot(5).unwrap();
        assert_eq!(slot.pid.load(Relaxed), std::process::id());
        assert_eq!(slot.fd.load(Relaxed), served.fd);
        served.ask();
        assert_eq!(gate.state(5), HELD);
        served.answer();
        assert_eq!(gate.state(5), IDLE);
        assert!(shared.announce_wait());
        served.close();
        assert_eq!((gate.state(5), gate.released()), (CLOSED, vec![5]));
        let mut byte = [0; 9];
        let woken = recv(&gate.gate_end, &mut byte, RecvFlags::DONTWAIT);
        assert_eq!(woken.map(|(length, _)| length), Ok(1));
    });
}

#[test]
fn under_a_gate_there_is_no_io_uring() {
    gated(|_| {
        let ring = io_uring::IoUring::new(2).map(|_| ());
        assert_eq!(ring.unwrap_err().raw_os_error(), Some(libc::ENOSYS));
    });
}

#[test]
fn without_its_gate_a_process_accepts_for_itself() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        gate.served(&listener, 5).close();
        drop(gate.die());
        let mut served = Served::by(&listener);
        served.turn();
        served.close();
        assert_eq!(inside::counted(shared), (2, 1));
    });
}

#[test]
fn a_number_that_was_closed_unseen_gives_its_slot_back_when_it_comes_again() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let first = gate.served(&listener, 5);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // By no function of libc's.
        unsafe { rustix::io::close(first.fd) };
        gate.dispatch(6);
        let (second, _) = listener.accept().unwrap();
        let second = second.into_raw_fd();
        assert_eq!(second, first.fd);
        assert_eq!((gate.state(5), gate.state(6)), (CLOSED, HELD));
        assert_eq!(gate.released(), [5]);
        Served { fd: second, client }.close();
        assert_eq!(gate.released(), [6]);
    });
}

#[test]
fn what_is_closed_by_the_number_of_the_call_as_libuv_does_is_closed() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let close = |fd: c_int| unsafe { libc::syscall(libc::SYS_close, fd) };
        let served = gate.served(&listener, 5);
        assert_eq!(close(served.fd), 0);
        assert_eq!(gate.released(), [5]);
        let kept = listener.as_raw_fd() + 512;
        assert_eq!((close(kept), errno()), (-1, libc::EBADF));
        assert_eq!(gate.said(), Err(Errno::AGAIN));
        assert_eq!(close(listener.into_raw_fd()), 0);
        assert_eq!(gate.said(), Ok(0));
    });
}

/// Numbers of this process that lie high: those of the shim, of which the server knows nothing.
fn high() -> Vec<c_int> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_str()?.parse().ok()
    };
    let mut high: Vec<_> = all.filter_map(number).filter(|&fd| fd >= 500).collect();
    high.sort_unstable();
    high
}

#[test]
fn a_server_that_closes_all_numbers_does_not_close_those_of_the_shim() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        gate.served(&listener, 5).close();
        let own = high();
        assert_eq!(own.len(), 4, "listener, hold, conversation, wake");
        for &fd in &own {
            assert_eq!((unsafe { libc::close(fd) }, errno()), (-1, libc::EBADF));
        }
        assert_eq!(unsafe { libc::close_range(400, u32::MAX, 0) }, 0);
        assert_eq!(high(), own);
        let servers = || assert_eq!(unsafe { libc::dup2(listener.as_raw_fd(), 700) }, 700);
        servers();
        unsafe { closefrom(400) };
        assert_eq!(high(), own);
        servers();
        forbid(libc::SYS_close_range, libc::ENOSYS);
        unsafe { closefrom(400) };
        assert_eq!(high(), own, "of an old kernel, too");
        gate.served(&listener, 6).close();
        assert_eq!(gate.released(), [6, 5]);
    });
}

#[test]
fn a_server_that_puts_a_file_over_a_number_of_the_shim_has_that_file_to_itself() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        gate.served(&listener, 5).close();
        let (ours, servers) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let own = high();
        for &fd in &own {
            assert_eq!(unsafe { libc::dup2(servers.as_raw_fd(), fd) }, fd);
        }
        assert_eq!(high().len(), 2 * own.len(), "they have moved");
        assert!(!gate.released().is_empty() && shared.announce_wait());
        gate.served(&listener, 6).close();
        assert_eq!(gate.released(), [6]);
        let woken = recv(&gate.gate_end, &mut [0; 9], RecvFlags::DONTWAIT);
        assert!(woken.is_ok(), "by the number that has moved");
        drop(gate.die());
        Served::by(&listener).close();
        let said = recv(&ours, &mut [0; 9], RecvFlags::DONTWAIT);
        assert_eq!(said.map(|_| ()), Err(Errno::AGAIN), "nobody wrote there");
    });
}

#[test]
fn the_gate_learns_that_the_last_process_has_closed_a_listener() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let (mut begins, ends) = std::os::unix::net::UnixStream::pair().unwrap();
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(ends);
            // The child has the listener until its parent says no more.
            let _ = std::io::Read::read(&mut begins, &mut [0]);
            unsafe { libc::_exit(0) };
        }
        let copy = listener.try_clone().unwrap();
        drop(listener);
        gate.served(&copy, 5).close();
        drop(copy);
        assert_eq!(gate.said(), Err(Errno::AGAIN), "a child has it");
        drop(ends);
        assert_eq!(unsafe { libc::waitpid(child, null_mut(), 0) }, child);
        assert_eq!(gate.said(), Ok(0));
    });
}

#[test]
fn a_child_that_closes_its_parents_connection_does_not_give_its_slot_back() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let served = gate.served(&listener, 5);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        gate.dispatch(6);
        let number = listener.as_raw_fd();
        let child = unsafe { libc::fork() };
        if child == 0 {
            // Between fork and exit: nothing but system calls, by the hooks.
            unsafe {
                let closed = libc::close(served.fd);
                let accepted = libc::accept(number, null_mut(), null_mut());
                libc::_exit(if closed == 0 && accepted >= 0 { 0 } else { 1 });
            }
        }
        let mut status = 0;
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(gate.state(5), HELD);
        let taken = shared.slot(6).unwrap();
        assert_eq!(
            (gate.state(6), taken.pid.load(Relaxed)),
            (HELD, child as u32)
        );
        served.close();
        assert_eq!(gate.released(), [5]);
        drop(client);
    });
}

#[test]
fn each_slot_is_given_back_once_however_many_threads_close_its_number() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        for slot in 0..60 {
            let served = gate.served(&listener, slot);
            let fd = served.fd;
            let closed = std::thread::scope(|scope| {
                let threads = [0; 3].map(|_| scope.spawn(move || unsafe { libc::close(fd) } == 0));
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(closed.iter().filter(|&&done| done).count(), 1);
            assert_eq!(gate.released(), [slot]);
        }
    });
}

#[test]
fn an_idle_connection_ends_at_the_gates_wish_unless_it_has_been_used_unseen() {
    gated(|shared| {
        shared.header.flags.fetch_or(FLAG_PREEMPTIVE, Relaxed);
        let (listener, gate) = gate(shared);
        let (mut used, mut idle) = (gate.served(&listener, 5), gate.served(&listener, 6));
        used.turn();
        idle.turn();
        used.ask();
        let mut to = [0_u8; 99];
        assert!(unsafe { libc::syscall(libc::SYS_read, used.fd, to.as_mut_ptr(), to.len()) } > 0);
        let _worker = gate.wishes_back([5, 6]);
        // The wishes are looked at in turn.
        while !idle.is_at_its_end() {
            std::thread::yield_now();
        }
        assert!(!used.is_at_its_end());
        keep_for(shared, std::time::Duration::ZERO);
    });
}
