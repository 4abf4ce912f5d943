//! The agent of a host: it starts, watches and kills the ranks of the host on behalf of a driver.
//!
//! The driver starts it through `ssh` or `srun` and speaks with it over its standard input and output ([`crate::channel`]).
//! It ends, and its ranks with it, when its input ends, when the driver is silent for the time of a lease, and when it is
//! killed: the kernel ends the ranks with the thread that started them. What a killed agent leaves in the file system is
//! removed by the next one.

mod attempt;
mod door;
mod logs;
mod rank_sockets;

use crate::cache::{self, Cache};
use crate::channel::{
    Destination, Frame, FromAgent, Greeting, LEASE, Opener, Outlet, Patient, Reply, Request, SIGN_OF_LIFE,
    StreamMessage, Streams, ToAgent, outlet, read_frame, urgency,
};
use crate::local::{ForkServers, Loaded, LocalNodes, free_resources};
use crate::worker_binary::{identity_in, identity_of};
use crate::{NodeFacts, Nodes, sockets};
use attempt::{HostedAttempt, HostedAttempts};
use door::Probed;
use rank_sockets::RankSockets;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::{MissedTickBehavior, interval};

/// Serves a driver over this process's standard input and output until the input ends or the driver is silent for too long.
/// No process that it started is left when it returns.
///
/// # Errors
/// The channel is broken.
pub async fn serve() -> io::Result<()> {
    serve_on(tokio::io::stdin(), tokio::io::stdout()).await
}

async fn serve_on(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> io::Result<()> {
    let (outlet, _writer) = outlet::<FromAgent>(output);
    let cache = Cache::new(cache::folder()?);
    sockets::reap();
    cache.reap();
    outlet.tell(FromAgent::Greeting(greeting(&cache)?));
    let agent = Arc::new(Agent {
        streams: Streams::new(outlet.clone(), Opener::Agent),
        outlet,
        cache,
        forks: ForkServers::default(),
        attempts: HostedAttempts::default(),
    });
    // In a task of its own: the loop may wait for a slow disk.
    let alive = agent.outlet.clone();
    let signs = tokio::spawn(async move {
        let mut ticks = interval(SIGN_OF_LIFE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            alive.tell(FromAgent::Alive);
        }
    });
    let mut input = Patient::new(input, LEASE);
    let ended = loop {
        match read_frame::<ToAgent>(&mut input).await {
            Ok(Some(Frame { message: ToAgent::Piece { request }, payload })) => {
                agent.cache.piece(request, payload).await;
            }
            Ok(Some(frame)) => agent.take(frame),
            Ok(None) => break Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                break Err(io::Error::new(error.kind(), "the driver is silent"));
            }
            Err(error) => break Err(error),
        }
    };
    signs.abort();
    agent.attempts.clear();
    ended
}

/// The state of an agent.
struct Agent {
    outlet: Outlet<FromAgent>,
    streams: Streams<FromAgent>,
    cache: Cache,
    forks: ForkServers,
    attempts: HostedAttempts,
}

impl Agent {
    /// Takes a message. What takes time is done in a task of its own.
    fn take(self: &Arc<Self>, frame: Frame<ToAgent>) {
        match frame.message {
            // Pieces are taken by the loop, which waits for them.
            ToAgent::Alive | ToAgent::Piece { .. } => {}
            ToAgent::Kill { attempt, member } => {
                if let Some(attempt) = self.attempt(attempt) {
                    attempt.kill(member);
                }
            }
            ToAgent::Discard { attempt, name } => {
                let Some(here) = self.attempt(attempt) else { return };
                if let Err(error) = here.discard(&name) {
                    let text = format!("the evaluated snapshot {name} cannot be deleted: {error}");
                    self.outlet.tell(FromAgent::Note { attempt, text });
                }
            }
            ToAgent::Close { attempt } => self.attempts.close(attempt),
            ToAgent::Stream(message) => self.stream(message, frame.payload),
            ToAgent::Request { request, what } => {
                // Registered before the next frame is read, which may be its first piece.
                if let Request::Put { file } = what {
                    return self.put(request, file);
                }
                let agent = self.clone();
                tokio::spawn(async move {
                    let outcome = agent.carry_out(request, what, frame.payload.into()).await;
                    let outcome = outcome.map_err(|error| error.to_string());
                    agent.outlet.tell(FromAgent::Reply { request, outcome });
                });
            }
        }
    }

    async fn carry_out(self: &Arc<Self>, request: u32, what: Request, payload: Vec<u8>) -> io::Result<Reply> {
        match what {
            Request::Clock => Ok(Reply::Clock(monotonic())),
            Request::Open { attempt, secret, forks, listen, ports } => {
                let forks = forks.then(|| self.forks.clone());
                let here = HostedAttempt::open(attempt, secret, forks, self)?;
                let door = match listen {
                    Some(address) => Some(here.listen(address, ports).await?),
                    None => None,
                };
                let opened = here.opened(door);
                self.attempts.insert(attempt, here)?;
                Ok(Reply::Opened(opened))
            }
            Request::Route { attempt, routes } => {
                self.expect(attempt)?.route(&routes, &self.streams)?;
                Ok(Reply::Done)
            }
            Request::Start { attempt, member, program, threads, environment } => {
                let start = attempt::Start { member, program, threads, environment, briefing: payload };
                Ok(Reply::Started(self.expect(attempt)?.start(start).await?))
            }
            Request::Fetch { attempt, name } => {
                let here = self.expect(attempt)?;
                let outlet = self.outlet.clone();
                let fetch = move || here.send_file(&name, request, &outlet);
                tokio::task::spawn_blocking(fetch).await.map_err(io::Error::other)??;
                Ok(Reply::Done)
            }
            Request::Host { attempt, node, at } => Ok(Reply::Host(self.expect(attempt)?.read_host(node, at))),
            Request::Data { source } => {
                let digest = move || crate::data_files::digest(&source);
                let digest = tokio::task::spawn_blocking(digest).await.map_err(io::Error::other)?;
                digest.map(Reply::Digest).map_err(io::Error::other)
            }
            Request::Missing { files } => {
                let cache = self.cache.clone();
                let missing = tokio::task::spawn_blocking(move || cache.missing(&files));
                Ok(Reply::Missing(missing.await.map_err(io::Error::other)?))
            }
            Request::Put { .. } => Err(io::Error::other("a file is put elsewhere")),
            Request::Assemble { folder, files } => {
                Ok(Reply::Assembled(self.cache.assemble(&folder, &files)?))
            }
            Request::Adopt { attempt, files } => {
                let folder = self.expect(attempt)?.adopted_folder()?;
                self.cache.adopt(&folder, &files)?;
                Ok(Reply::Assembled(folder))
            }
            Request::Network { address } => {
                let network = tokio::task::spawn_blocking(move || crate::local::network(address));
                Ok(Reply::Network(network.await.map_err(io::Error::other)?))
            }
            Request::Probe { attempt, door, sizes } => {
                let here = self.expect(attempt)?;
                let Probed { round_trip, transfers } = here.probe(door, &sizes).await?;
                Ok(Reply::Probed { round_trip, transfers })
            }
            Request::Examine { program, threads, environment } => {
                let forks = self.forks.clone();
                let examine = move || match threads {
                    Some(threads) => identity_of(&Loaded { program, threads, environment }, &forks),
                    None => identity_in(&program, &environment),
                };
                let examined = tokio::task::spawn_blocking(examine).await.map_err(io::Error::other)?;
                examined.map(Reply::Examined).map_err(io::Error::other)
            }
        }
    }

    fn put(self: &Arc<Self>, request: u32, file: crate::channel::CachedFile) {
        let stored = self.cache.store(request, file);
        let agent = self.clone();
        tokio::spawn(async move {
            let outcome = match stored.await {
                Ok(outcome) => outcome.map(|()| Reply::Done).map_err(|error| error.to_string()),
                Err(_) => Err("the thread that writes it failed".to_owned()),
            };
            agent.outlet.tell(FromAgent::Reply { request, outcome });
        });
    }

    fn stream(self: &Arc<Self>, message: StreamMessage, payload: bytes::Bytes) {
        match message {
            StreamMessage::Data { stream } => self.streams.take(stream, payload),
            StreamMessage::End { stream } => self.streams.ended(stream),
            StreamMessage::Open { stream, attempt, to } => {
                let incoming = self.streams.accept(stream);
                let agent = self.clone();
                tokio::spawn(async move {
                    match agent.socket(attempt, to).await {
                        Some(socket) => agent.streams.carry(stream, socket, incoming, urgency(to)).await,
                        None => agent.streams.end(stream, urgency(to)).await,
                    }
                });
            }
        }
    }

    /// The socket of a rank on this host.
    async fn socket(&self, attempt: u64, to: Destination) -> Option<UnixStream> {
        let Destination::Rank(rank) = to else { return None };
        let sockets = Arc::downgrade(self.attempt(attempt)?.sockets());
        RankSockets::connect(sockets, rank).await.ok()
    }

    fn attempt(&self, attempt: u64) -> Option<Arc<HostedAttempt>> {
        self.attempts.get(attempt)
    }

    fn expect(&self, attempt: u64) -> io::Result<Arc<HostedAttempt>> {
        self.attempt(attempt).ok_or_else(rank_sockets::over)
    }
}

/// Greeting with this agent's versions, facts about its host, and the addresses of its connection.
fn greeting(cache: &Cache) -> io::Result<Greeting> {
    let (driver_at, reached_at) = connection(std::env::var("SSH_CONNECTION").ok().as_deref());
    Ok(Greeting {
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: mesh::PROTOCOL,
        format: mesh::wire_format(),
        facts: facts()?,
        free: free_resources(cache.folder()).map_err(io::Error::other)?,
        reached_at: reached_at.or_else(own_address),
        driver_at,
        cache: cache.folder().to_owned(),
    })
}

fn facts() -> io::Result<NodeFacts> {
    LocalNodes.facts(&recipe::Node::local(1))
}

/// An address of this host by its own name: one that others reach, if there is any.
fn own_address() -> Option<IpAddr> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let found: Vec<IpAddr> = (name.as_str(), 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    found.iter().find(|address| !address.is_loopback()).or(found.first()).copied()
}

/// The addresses of the client and of this host in `SSH_CONNECTION`: `client port server port`.
fn connection(variable: Option<&str>) -> (Option<IpAddr>, Option<IpAddr>) {
    let words: Vec<&str> = variable.unwrap_or_default().split_whitespace().collect();
    let address = |place: usize| {
        // A link-local address of IPv6 has its interface behind a per cent sign.
        words.get(place).and_then(|word| word.split('%').next()?.parse().ok())
    };
    (address(0), address(2))
}

/// Nanoseconds of this host's monotonic clock.
pub(crate) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_names_both_addresses() {
        let address = |text: &str| Some(text.parse().unwrap());
        let (client, server) = connection(Some("10.0.0.1 5022 10.0.0.2 22"));
        assert_eq!((client, server), (address("10.0.0.1"), address("10.0.0.2")));
        assert_eq!(
            connection(Some("fe80::1%eth0 1 fe80::2%eth0 22")),
            (address("fe80::1"), address("fe80::2"))
        );
        assert_eq!(connection(Some("nothing")), (None, None));
        assert_eq!(connection(None), (None, None));
    }
}
