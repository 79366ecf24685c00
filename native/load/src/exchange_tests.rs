//! How connections take turns.

use rustix::event::epoll::{self, EventFlags};
use rustix::event::Timespec;
use rustix::io::ioctl_fionread;

use crate::clock::Clock;
use crate::connection::Stage;
use crate::engine::Engine;
use crate::plan::Plan;
use crate::scripted::{one_session, order, Server};
use crate::virtual_time::{nothing_under_way, Now, Virtual};

const BODY_BYTES: usize = 16 * 1024;
const BUFFER_BYTES: usize = 1024;

#[test]
fn of_a_reply_that_has_come_faster_than_it_is_read_one_buffer_is_taken_in_each_turn() {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let all = (head.len() + BODY_BYTES) as u64;
    let server = Server::new(move |_, mut client| {
        if client.request().is_some() {
            client.send(&format!("{head}{}", "x".repeat(BODY_BYTES)));
            // Until the client closes.
            client.request();
        }
    });
    let plan = Plan::new(&order(&server, one_session(1.0, 0.0), 60.0)).expect("plan");
    let clock = Clock::Virtual(Virtual {
        now: Now::default(),
        settled: Box::new(nothing_under_way),
    });
    let mut engine = Engine::new(&plan, clock).expect("engine");
    engine.buffer.truncate(BUFFER_BYTES);
    engine.start_session(0, 0, 0, 0);
    let mut turns = 0;
    loop {
        let (id, flags) = event(&engine);
        let link = engine.links.get(id).expect("a connection");
        let reads = link.stage == Stage::Busy && flags.contains(EventFlags::IN);
        while reads && turns == 0 && ioctl_fionread(&link.socket).expect("a socket") < all {
            std::thread::yield_now();
        }
        engine.on_socket(id, flags);
        turns += u64::from(reads);
        if engine.tallies[0].now.requests == 1 {
            break;
        }
    }
    assert_eq!(turns, all.div_ceil(BUFFER_BYTES as u64));
}

/// The next news of a connection.
fn event(engine: &Engine<'_>) -> (crate::arena::Id, EventFlags) {
    let mut events = Vec::with_capacity(1);
    let patience = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    epoll::wait(
        &engine.epoll,
        rustix::buffer::spare_capacity(&mut events),
        Some(&patience),
    )
    .expect("news");
    let event = events.first().expect("news within a minute");
    (crate::arena::Id::from_bits(event.data.u64()), event.flags)
}
