//! How two processes prove to each other that they belong to the same attempt.
//!
//! Every connection begins with four messages:
//!
//! ```text
//! client                                        server
//!   hello     who I am, whom I mean, nonce  ->
//!             <-  challenge  nonce, HMAC(secret, "server" | connection)
//!   proof     HMAC(secret, "client" | connection)  ->
//!             <-  welcome    HMAC(secret, "welcome" | connection)
//! ```
//!
//! where *connection* is the plane, both members and both nonces. Each code is computed with another word in
//! front, so that none can be reflected; fresh nonces prevent replays; and a secret belongs to one attempt, so that a
//! process left over from another attempt is rejected. Each message begins with magic, protocol and wire format, which
//! are checked first.
//!
//! What this protects against: a process that reaches a socket but does not know the secret can neither impersonate a
//! member nor learn anything; its frames are ignored. Control messages
//! carry an authentication code each, under a key of their connection; data frames do not, because hashing them
//! would cost more than sending them: they are bound to the connection, whose identity on the socket is 128
//! random bits that only its two ends have seen.
//!
//! What it does not: nothing is encrypted; and ZeroMQ's own decoder trusts the length of a frame before the handshake
//! begins, so a stranger at the socket could make a process allocate memory until it is killed. Therefore all sockets lie
//! in a directory that only the user may enter, which is checked before they are bound. Another process of the same user
//! could do worse without any socket.

use crate::{Member, MeshError, PROTOCOL, Secret, directory, wire_format};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

const MAGIC: [u8; 4] = *b"BKHS";
const PREAMBLE: usize = 17;

const HELLO: u8 = 1;
const CHALLENGE: u8 = 2;
const PROOF: u8 = 3;
const WELCOME: u8 = 4;
const REFUSED: u8 = 5;

/// An authentication code, or a key.
pub(crate) type Code = [u8; 32];

/// Which plane a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plane {
    /// Between the driver and a member.
    Control = 1,
    /// Between two ranks.
    Data = 2,
    /// Between a host and the door of another one.
    Door = 3,
}

/// A process at one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Driver,
    Member(Member),
}

impl End {
    fn number(self) -> u64 {
        match self {
            Self::Driver => u64::MAX - 1,
            Self::Member(Member::Evaluator) => u64::MAX,
            Self::Member(Member::Rank(rank)) => u64::from(rank.0),
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        match number {
            u64::MAX => Some(Self::Member(Member::Evaluator)),
            number if number == u64::MAX - 1 => Some(Self::Driver),
            number => u32::try_from(number).ok().map(|rank| Self::Member(Member::Rank(record::Rank(rank)))),
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Driver => out.write_str("the driver"),
            Self::Member(member) => member.fmt(out),
        }
    }
}

/// HMAC-SHA256 over some parts.
pub(crate) fn authenticate(key: &Code, parts: &[&[u8]]) -> Code {
    // HMAC fills a short key up with zeros to the size of a block.
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Compares in constant time.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// The inputs of a connection's codes, known to both ends.
#[derive(Clone)]
struct Connection {
    secret: Secret,
    plane: Plane,
    client: End,
    server: End,
    client_nonce: Code,
    server_nonce: Code,
}

impl Connection {
    fn code(&self, word: &str) -> Code {
        authenticate(
            &self.secret.0,
            &[
                word.as_bytes(),
                &[0, self.plane as u8],
                &self.client.number().to_le_bytes(),
                &self.server.number().to_le_bytes(),
                &self.client_nonce,
                &self.server_nonce,
            ],
        )
    }
}

/// Why a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not a message of a handshake, or not the expected one.
    Garbage,
    /// The other side speaks another version.
    Version { protocol: u32, format: u64 },
    /// The other side does not know the secret.
    Secret,
}

impl Fault {
    pub(crate) fn of(self, peer: End) -> MeshError {
        let peer = peer.to_string();
        match self {
            Self::Version { protocol, format } => MeshError::Version { peer, protocol, format },
            Self::Garbage | Self::Secret => MeshError::Secret { peer },
        }
    }
}

fn message(word: u8, parts: &[&[u8]]) -> Bytes {
    let mut bytes = Vec::with_capacity(PREAMBLE + 64);
    bytes.extend(MAGIC);
    bytes.extend(PROTOCOL.to_le_bytes());
    bytes.extend(wire_format().to_le_bytes());
    bytes.push(word);
    for part in parts {
        bytes.extend(*part);
    }
    bytes.into()
}

/// Checks the preamble. Returns the word and the rest.
fn open(bytes: &[u8]) -> Result<(u8, &[u8]), Fault> {
    let (preamble, rest) = bytes.split_at_checked(PREAMBLE).ok_or(Fault::Garbage)?;
    let (magic, numbers) = preamble.split_at(4);
    let protocol = u32::from_le_bytes(array(&numbers[..4])?);
    let format = u64::from_le_bytes(array(&numbers[4..12])?);
    if magic != MAGIC {
        return Err(Fault::Garbage);
    }
    if (protocol, format) != (PROTOCOL, wire_format()) {
        return Err(Fault::Version { protocol, format });
    }
    Ok((preamble[PREAMBLE - 1], rest))
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes.try_into().map_err(|_| Fault::Garbage)
}

/// A server's reply to a hello of another version.
pub(crate) fn refusal() -> Bytes {
    message(REFUSED, &[])
}

/// The client's side, waiting for the challenge or the welcome.
pub(crate) struct Client {
    connection: Connection,
    challenged: bool,
}

/// The client's next action.
pub(crate) enum Next {
    Send(Bytes),
    /// The handshake is complete; the key of the connection.
    Done(Code),
}

impl Client {
    /// Begins a handshake; the hello is to be sent.
    pub(crate) fn new(secret: &Secret, plane: Plane, me: End, server: End) -> (Self, Bytes) {
        let nonce = directory::random();
        let hello = message(
            HELLO,
            &[&[plane as u8], &me.number().to_le_bytes(), &server.number().to_le_bytes(), &nonce],
        );
        let connection = Connection {
            secret: secret.clone(),
            plane,
            client: me,
            server,
            client_nonce: nonce,
            server_nonce: [0; 32],
        };
        (Self { connection, challenged: false }, hello)
    }

    /// Takes the server's next message.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Next, Fault> {
        match (open(bytes)?, self.challenged) {
            ((CHALLENGE, rest), false) if rest.len() == 64 => {
                self.connection.server_nonce = array(&rest[..32])?;
                if !same(&rest[32..], &self.connection.code("server")) {
                    return Err(Fault::Secret);
                }
                self.challenged = true;
                Ok(Next::Send(message(PROOF, &[&self.connection.code("client")])))
            }
            ((WELCOME, rest), true) if same(rest, &self.connection.code("welcome")) => {
                Ok(Next::Done(self.connection.code("key")))
            }
            _ => Err(Fault::Garbage),
        }
    }
}

/// The server's side, waiting for the proof.
pub(crate) struct Server(Connection);

impl Server {
    /// Takes a hello to `me`; the challenge is to be sent back.
    pub(crate) fn greet(
        secret: &Secret,
        plane: Plane,
        me: End,
        hello: &[u8],
    ) -> Result<(Self, Bytes), Fault> {
        let (word, rest) = open(hello)?;
        if word != HELLO || rest.len() != 49 || rest[0] != plane as u8 {
            return Err(Fault::Garbage);
        }
        let client = End::from_number(u64::from_le_bytes(array(&rest[1..9])?)).ok_or(Fault::Garbage)?;
        if u64::from_le_bytes(array(&rest[9..17])?) != me.number() {
            return Err(Fault::Garbage);
        }
        let connection = Connection {
            secret: secret.clone(),
            plane,
            client,
            server: me,
            client_nonce: array(&rest[17..])?,
            server_nonce: directory::random(),
        };
        let challenge = message(CHALLENGE, &[&connection.server_nonce, &connection.code("server")]);
        Ok((Self(connection), challenge))
    }

    /// Takes the proof. Returns the client, the welcome for it, and the key of the connection.
    pub(crate) fn check(self, proof: &[u8]) -> Result<(End, Bytes, Code), Fault> {
        let (word, rest) = open(proof)?;
        if word != PROOF {
            return Err(Fault::Garbage);
        }
        if !same(rest, &self.0.code("client")) {
            return Err(Fault::Secret);
        }
        Ok((self.0.client, message(WELCOME, &[&self.0.code("welcome")]), self.0.code("key")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use record::Rank;

    const SECRET: Secret = Secret([1; 32]);
    const ME: End = End::Member(Member::Rank(Rank(3)));

    fn begin() -> (Client, Server, Bytes) {
        let (client, hello) = Client::new(&SECRET, Plane::Control, ME, End::Driver);
        let (server, challenge) = Server::greet(&SECRET, Plane::Control, End::Driver, &hello).unwrap();
        (client, server, challenge)
    }

    fn proof(client: &mut Client, challenge: &[u8]) -> Bytes {
        match client.take(challenge).unwrap() {
            Next::Send(proof) => proof,
            Next::Done(_) => panic!("done without a proof"),
        }
    }

    fn fault<T>(outcome: Result<T, Fault>) -> Fault {
        outcome.err().expect("a fault")
    }

    #[test]
    fn both_ends_have_one_key_that_no_other_connection_has() {
        let handshake = || {
            let (mut client, server, challenge) = begin();
            let (peer, welcome, key) = server.check(&proof(&mut client, &challenge)).unwrap();
            assert_eq!(peer, ME);
            let Next::Done(same) = client.take(&welcome).unwrap() else { panic!("no end") };
            assert_eq!(same, key);
            key
        };
        assert_ne!(handshake(), handshake());
    }

    #[test]
    fn no_peer_passes_without_the_secret() {
        let other = Secret([2; 32]);
        let (mut client, hello) = Client::new(&other, Plane::Control, ME, End::Driver);
        let (server, challenge) = Server::greet(&SECRET, Plane::Control, End::Driver, &hello).unwrap();
        assert_eq!(fault(client.take(&challenge)), Fault::Secret);
        let guess = message(PROOF, &[&client.connection.code("client")]);
        assert_eq!(fault(server.check(&guess)), Fault::Secret);
    }

    #[test]
    fn the_code_of_one_side_is_worthless_on_the_other() {
        let (_, server, challenge) = begin();
        let thrown_back = message(PROOF, &[&challenge[PREAMBLE + 32..]]);
        assert_eq!(fault(server.check(&thrown_back)), Fault::Secret);
        let (mut client, server, challenge) = begin();
        let proof = proof(&mut client, &challenge);
        assert_eq!(fault(client.take(&message(WELCOME, &[&proof[PREAMBLE..]]))), Fault::Garbage);
        assert!(server.check(&proof).is_ok());
    }

    #[test]
    fn a_proof_fits_its_own_challenge_only() {
        let (mut client, _, challenge) = begin();
        let proof = proof(&mut client, &challenge);
        let (_, another, _) = begin();
        assert_eq!(fault(another.check(&proof)), Fault::Secret);
    }

    #[test]
    fn a_hello_is_for_one_plane_and_one_end() {
        let (_, hello) = Client::new(&SECRET, Plane::Control, ME, End::Driver);
        let greet = |plane, end| Server::greet(&SECRET, plane, end, &hello).map(drop);
        assert_eq!(greet(Plane::Data, End::Driver), Err(Fault::Garbage));
        assert_eq!(greet(Plane::Control, ME), Err(Fault::Garbage));
        assert_eq!(greet(Plane::Control, End::Driver), Ok(()));
    }

    #[test]
    fn another_version_is_told_to_both() {
        let (mut client, hello) = Client::new(&SECRET, Plane::Control, ME, End::Driver);
        let mut other = hello.to_vec();
        other[4] += 1;
        let told = Fault::Version { protocol: PROTOCOL + 1, format: wire_format() };
        assert_eq!(fault(Server::greet(&SECRET, Plane::Control, End::Driver, &other)), told);
        let mut refused = refusal().to_vec();
        refused[8] ^= 1;
        assert_eq!(
            fault(client.take(&refused)),
            Fault::Version { protocol: PROTOCOL, format: wire_format() ^ 1 }
        );
    }

    #[test]
    fn members_survive_as_numbers() {
        let ends =
            [End::Driver, End::Member(Member::Evaluator), End::Member(Member::Rank(Rank(u32::MAX))), ME];
        assert!(ends.into_iter().all(|end| End::from_number(end.number()) == Some(end)));
        assert_eq!(End::from_number(1 << 32), None);
    }

    proptest! {
        #[test]
        fn no_bytes_pass_or_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), word in 0..7_u8) {
            let dressed = message(word, &[&bytes]);
            for bytes in [&bytes[..], &dressed[..]] {
                let (mut client, server, challenge) = begin();
                prop_assert!(client.take(bytes).is_err());
                prop_assert!(server.check(bytes).is_err());
                let mut client = { proof(&mut client, &challenge); client };
                prop_assert!(client.take(bytes).is_err());
                let _ = Server::greet(&SECRET, Plane::Control, End::Driver, bytes);
            }
        }
    }
}
