//! A discrete-event simulator of clients, web server and operating system in virtual time.
//!
//! It plays the same populations as the load generator against a modelled server, or a shop of three tiers, and gives the
//! readings of the real sensors. Same server, populations and seed: same run, bit for bit.

#![forbid(unsafe_code)]

mod calendar;
mod check;
mod client;
mod cores;
mod gate;
mod memory;
mod meter;
mod pool;
mod population;
mod session;
mod shop;
mod system;
mod workers;

use std::io::{BufRead, Write};

use anyhow::Context as _;
use trimtab_wire::sim::{Answer, Order};
use trimtab_wire::BadInput;

pub use crate::meter::{Levels, Meter};
pub use crate::shop::Shop;
pub use crate::system::{Census, Configuration, System};

/// What is simulated.
#[derive(Debug)]
pub enum Model {
    /// One server.
    Server(Box<System>),
    /// A shop of three tiers.
    Shop(Box<Shop>),
}

/// Runs the subcommand on standard input and output until the input ends.
///
/// # Errors
/// Standard input or output broke; a bad order is answered instead.
pub fn run_stdio() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut model = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading an order")?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(&mut model, &line);
        serde_json::to_writer(&mut out, &answer).context("writing an answer")?;
        out.write_all(b"\n").context("writing an answer")?;
        out.flush().context("writing an answer")?;
    }
    Ok(())
}

/// Carries out one order, a line of JSON.
pub fn answer(model: &mut Option<Model>, line: &str) -> Answer {
    let outcome = serde_json::from_str(line)
        .map_err(|error| BadInput(format!("not an order: {error}")))
        .and_then(|order| carry_out(model, order));
    outcome.unwrap_or_else(|BadInput(message)| Answer::Refused { message })
}

fn carry_out(slot: &mut Option<Model>, order: Order) -> Result<Answer, BadInput> {
    match order {
        Order::Start {
            server,
            populations,
            seed,
        } => {
            let system = System::new(server, &populations, seed)?;
            let answer = done(&system);
            *slot = Some(Model::Server(Box::new(system)));
            Ok(answer)
        }
        Order::StartShop {
            shop,
            browsers,
            seed,
        } => {
            let shop = Shop::new(*shop, &browsers, seed)?;
            let answer = shop_done(&shop);
            *slot = Some(Model::Shop(Box::new(shop)));
            Ok(answer)
        }
        order => match slot {
            None => Err(BadInput(
                "nothing to simulate yet: the first order must be start".to_owned(),
            )),
            Some(Model::Server(system)) => tell_server(system, order),
            Some(Model::Shop(shop)) => tell_shop(shop, order),
        },
    }
}

fn tell_server(system: &mut System, order: Order) -> Result<Answer, BadInput> {
    match order {
        Order::Apply { changes } => system.apply(&changes)?,
        Order::Advance { duration_s } => system.advance(duration_s)?,
        Order::Begin {} => system.begin(),
        Order::Read {} | Order::Start { .. } | Order::StartShop { .. } => {
            return Ok(Answer::Readings {
                now_s: system.now_s(),
                readings: system.readings(),
                samples: system.meter().served,
                totals: system.totals(),
                events: system.events(),
            })
        }
    }
    Ok(done(system))
}

fn tell_shop(shop: &mut Shop, order: Order) -> Result<Answer, BadInput> {
    match order {
        Order::Apply { .. } => {
            return Err(BadInput(
                "a shop has no knobs: start another one with other settings".to_owned(),
            ))
        }
        Order::Advance { duration_s } => shop.advance(duration_s)?,
        Order::Begin {} => shop.begin(),
        Order::Read {} | Order::Start { .. } | Order::StartShop { .. } => {
            return Ok(Answer::Readings {
                now_s: shop.now_s(),
                readings: shop.readings(),
                samples: shop.meter().pages,
                totals: shop.totals(),
                events: shop.events(),
            })
        }
    }
    Ok(shop_done(shop))
}

fn shop_done(shop: &Shop) -> Answer {
    Answer::Done {
        now_s: shop.now_s(),
        configuration: std::collections::BTreeMap::new(),
    }
}

fn done(system: &System) -> Answer {
    let configuration = system.configuration();
    let knobs = [
        ("max_request_workers", configuration.max_request_workers),
        ("keep_alive_timeout_ms", configuration.keep_alive_timeout_ms),
    ];
    let knobs = knobs.map(|(name, value)| (name.to_owned(), i64::from(value)));
    let budgets = system.budgets();
    Answer::Done {
        now_s: system.now_s(),
        configuration: budgets.chain(knobs).collect(),
    }
}
