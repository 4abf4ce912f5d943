//! An HTTP server in the test's own process: each request is answered as the script says, the last line of which
//! holds for all further ones.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// With what was asked for.
    Good,
    /// With the whole file, whatever was asked for.
    NoRanges,
    /// With the first bytes of it; then the connection ends.
    Cut(usize),
    /// With the first bytes of it; then silence.
    Silent(usize),
    /// With this status and no content.
    Status(u16),
    /// By sending the asker elsewhere.
    Redirect(String),
    /// With other bytes of the same length.
    Wrong,
    /// With a content of three bytes.
    Short,
    /// With more bytes than it should have, of which nothing is said beforehand.
    Endless,
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    port: u16,
    seen: Arc<Mutex<Vec<Asked>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A request: path and first byte asked for.
pub(crate) type Asked = (String, Option<u64>);

/// Name and content of each file that a server has.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

impl Server {
    pub(crate) fn start(files: Files, script: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(AtomicBool::new(false));
        let noted = seen.clone();
        let ended = over.clone();
        let script = script.to_vec();
        let thread = std::thread::spawn(move || {
            // Held open, so that silence is silence.
            let mut silent = Vec::new();
            for (place, stream) in listener.incoming().enumerate() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let reply = script.get(place).or(script.last()).cloned().unwrap_or(Reply::Good);
                // The client may have closed the connection.
                if let Ok(stream) = stream
                    && let Ok(Some(stream)) = answer(stream, &files, &reply, &noted)
                {
                    silent.push(stream);
                }
            }
        });
        Self { url: format!("http://127.0.0.1:{port}"), port, seen, over, thread: Some(thread) }
    }

    /// The requests so far: path and first byte asked for.
    pub(crate) fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(
    mut stream: TcpStream,
    files: &Files,
    reply: &Reply,
    seen: &Mutex<Vec<Asked>>,
) -> std::io::Result<Option<TcpStream>> {
    let (path, range) = request(&mut stream)?;
    seen.lock().unwrap().push((path.clone(), range));
    let name = path.rsplit('/').next().unwrap_or_default();
    let Some((_, content)) = files.iter().find(|(own, _)| own == name) else {
        return head(&mut stream, 404, 0, "").map(|()| None);
    };
    let from =
        range.filter(|from| *reply != Reply::NoRanges && *from < content.len() as u64).unwrap_or(0) as usize;
    if range.is_some_and(|from| from >= content.len() as u64) && *reply == Reply::Good {
        return head(&mut stream, 416, 0, "").map(|()| None);
    }
    let rest = &content[from..];
    let (status, extra) = match from {
        0 => (200, String::new()),
        _ => (206, format!("Content-Range: bytes {from}-{}/{}\r\n", content.len() - 1, content.len())),
    };
    match reply {
        Reply::Good | Reply::NoRanges => {
            head(&mut stream, status, rest.len(), &extra)?;
            stream.write_all(rest)?;
        }
        Reply::Cut(count) | Reply::Silent(count) => {
            head(&mut stream, status, rest.len(), &extra)?;
            stream.write_all(&rest[..*count.min(&rest.len())])?;
            stream.flush()?;
            return Ok(matches!(reply, Reply::Silent(_)).then_some(stream));
        }
        Reply::Status(status) => head(&mut stream, *status, 0, "")?,
        Reply::Redirect(to) => head(&mut stream, 302, 0, &format!("Location: {to}\r\n"))?,
        Reply::Wrong => {
            head(&mut stream, status, rest.len(), &extra)?;
            stream.write_all(&rest.iter().map(|byte| byte ^ 1).collect::<Vec<_>>())?;
        }
        Reply::Short => {
            head(&mut stream, 200, 3, "")?;
            stream.write_all(b"404")?;
        }
        Reply::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            stream.write_all(content)?;
            stream.write_all(&vec![7; 1 << 20])?;
        }
    }
    stream.flush().map(|()| None)
}

fn head(stream: &mut TcpStream, status: u16, length: usize, extra: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\n{extra}Connection: close\r\n\r\n")
}

/// Path and first byte of a request.
fn request(stream: &mut TcpStream) -> std::io::Result<Asked> {
    let mut reader = BufReader::new(&mut *stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut range = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok((path, range));
        }
        let line = line.to_lowercase();
        if let Some(from) =
            line.trim().strip_prefix("range: bytes=").and_then(|range| range.strip_suffix('-'))
        {
            range = from.parse().ok();
        }
    }
}
