//! A server that answers every request at once with a small body: the counterpart for measuring the load generator.
//!
//! It writes its address on standard output, serves any number of connections from one thread, and ends with its
//! standard input. Usage: `cargo run --release --example responder [REPLY]`, with a file that holds the whole reply.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrV4, SocketFlags, SocketType};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LISTENER: u64 = u64::MAX;
const INPUT: u64 = u64::MAX - 1;
const DESCRIPTORS: u64 = 1_048_576;

fn main() -> anyhow::Result<()> {
    raise_descriptors();
    let reply = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => REPLY.to_vec(),
    };
    let listener = net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    net::bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    net::listen(&listener, 65_535)?;
    let address = SocketAddrV4::try_from(net::getsockname(&listener)?)?;
    println!("{address}");
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &poll,
        &listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    epoll::add(
        &poll,
        std::io::stdin(),
        EventData::new_u64(INPUT),
        EventFlags::IN,
    )?;
    let mut clients: Vec<Option<OwnedFd>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                INPUT => return Ok(()),
                LISTENER => accept(&listener, &poll, &mut clients, &mut free)?,
                slot => {
                    let slot = slot as usize;
                    if clients[slot]
                        .as_ref()
                        .is_some_and(|client| !answer(client, &reply))
                    {
                        clients[slot] = None;
                        free.push(slot);
                    }
                }
            }
        }
    }
}

fn accept(
    listener: &OwnedFd,
    poll: &OwnedFd,
    clients: &mut Vec<Option<OwnedFd>>,
    free: &mut Vec<usize>,
) -> anyhow::Result<()> {
    while let Ok(client) = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
    {
        let slot = free.pop().unwrap_or_else(|| {
            clients.push(None);
            clients.len() - 1
        });
        epoll::add(
            poll,
            &client,
            EventData::new_u64(slot as u64),
            EventFlags::IN,
        )?;
        clients[slot] = Some(client);
    }
    Ok(())
}

/// Answers one request, which the generator sends in one piece; false when the client has gone.
fn answer(client: &OwnedFd, reply: &[u8]) -> bool {
    let mut buffer = [0; 4096];
    match rustix::io::read(client, &mut buffer[..]) {
        Ok(0) => false,
        Ok(_) => net::send(client, reply, net::SendFlags::NOSIGNAL).is_ok(),
        Err(error) => error == Errno::AGAIN,
    }
}

fn raise_descriptors() {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS);
    let wanted = hard.max(DESCRIPTORS);
    let limit = |n| Rlimit {
        current: Some(n),
        maximum: Some(n),
    };
    if setrlimit(Resource::Nofile, limit(wanted)).is_err() {
        // Without the right to raise it, the limit stays at what the process may have.
        let _ = setrlimit(Resource::Nofile, limit(hard));
    }
}
