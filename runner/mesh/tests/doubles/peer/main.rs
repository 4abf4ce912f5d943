//! A test double of a rank, as a process that can be killed and stopped: it reads its briefing, opens its data
//! plane, says `open`, and does what its arguments say: `hold` waits for the end of its input; `take N` receives N
//! messages of rank 0; `give N SIZE` sends rank 0 N messages. Then it says goodbye and prints `done`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test double fails as tests do")]

use mesh::{DataPlane, Member, read_briefing};
use record::{Clock, Nanos, Rank, Work};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::{Kind, Packet, Tag};

struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

fn main() {
    let mut input = std::io::stdin().lock();
    let briefing = read_briefing(&mut input).unwrap();
    let Member::Rank(me) = briefing.member else { panic!("an evaluator has no data plane") };
    let plane = DataPlane::open(&briefing, me, Arc::new(RealClock(Instant::now()))).unwrap();
    println!("open");
    let mut transport = plane.transport();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["hold"] => drop(input.read_to_end(&mut Vec::new())),
        ["take", count] => {
            for step in 1..=count.parse().unwrap() {
                transport.recv(Rank(0), Tag::new(Kind::Reduce, step)).unwrap();
            }
        }
        ["give", count, size] => {
            let packet = Packet(vec![7; size.parse().unwrap()].into());
            for step in 1..=count.parse().unwrap() {
                transport.send(Rank(0), Tag::new(Kind::Reduce, step), packet.clone()).unwrap();
            }
        }
        _ => panic!("{words:?}"),
    }
    plane.close(Duration::from_mins(1)).unwrap();
    println!("done");
}
