//! Strangers at the doors of hosts.

use crate::{HOSTS, training};
use e2e::{Desk, Lab, WorkerProcess, free_port, wait_until};
use record::Event;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Sends a byte every half second until it is hung up on, and returns how long that took.
fn dribble(mut stream: TcpStream) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_mins(1) && stream.write_all(&[0]).is_ok() {
        thread::sleep(Duration::from_millis(500));
    }
    begin.elapsed()
}

/// Strangers at the only ports that a run opens: garbage, giant lengths, silence, a byte now and then, and a thousand connections.
#[test]
fn strangers_at_a_door_change_nothing() {
    if !Lab::is_possible() {
        return;
    }
    let port = free_port().unwrap();
    let scene = training(&format!("{HOSTS}\nports = \"{port}-{port}\""));
    let knock = |host: &str| TcpStream::connect((host, port)).unwrap();
    let slow = knock("127.0.0.1");
    let slow = thread::spawn(move || dribble(slow));
    for host in ["127.0.0.1", "127.0.0.2"] {
        knock(host).write_all(&[0xff; 4096]).unwrap();
        let mut giant = knock(host);
        giant.write_all(&[0; 12]).unwrap();
        giant.write_all(&[0xff, 0xff]).unwrap();
        giant.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(matches!(giant.read(&mut [0; 8]), Ok(0) | Err(_)), "it is hung up on");
        let silent: Vec<TcpStream> = (0..500).map(|_| knock(host)).collect();
        drop(silent);
    }
    let steps = |desk: &Desk| {
        desk.events()
            .iter()
            .filter_map(|event| match event {
                Event::Step(step) => Some(step.step),
                _ => None,
            })
            .max()
            .unwrap()
    };
    let before = steps(&scene.desk);
    wait_until(Duration::from_secs(20), || Ok(steps(&scene.desk) > before + 50)).unwrap();
    assert!(scene.workers.iter().all(WorkerProcess::lives));
    let hung_up = slow.join().unwrap();
    assert!(hung_up < Duration::from_secs(30), "a slow sender keeps a connection for {hung_up:?}");
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.end(Duration::from_secs(30)).unwrap().with_code(130).unwrap();
}
