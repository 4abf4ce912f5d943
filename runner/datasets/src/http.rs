//! One request for the rest of a file: with a deadline for every wait, through the proxy that the environment names
//! (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), with further certificates from `SSL_CERT_FILE`.

use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// How long to wait for what, and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, and for the beginning of an answer.
    pub answer: Duration,
    /// For more bytes: a server that is silent for longer is given up.
    pub silence: Duration,
    /// How often one source is tried where it breaks off; a resumed download is not counted.
    pub tries: u32,
    /// Between two tries; doubled each time.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            tries: 4,
            pause: Duration::from_secs(1),
        }
    }
}

/// Reply of a server to a request for the rest of a file.
pub(crate) enum Answer {
    /// The file from the byte that was asked for, or from its beginning.
    Content {
        /// The first byte that comes.
        begin: u64,
        /// The length of the whole file, where the server says so.
        total: Option<u64>,
        /// Content from byte `begin` on.
        body: Box<dyn Read>,
    },
    /// There is nothing from that byte on.
    Beyond,
    /// Any other status code.
    Status(u16),
}

/// HTTP client with the deadlines of a [`Patience`].
pub(crate) struct Client {
    agent: Agent,
}

impl Client {
    /// A client with this patience.
    pub(crate) fn new(patience: Patience) -> Self {
        let config = Agent::config_builder()
            .timeout_resolve(Some(patience.answer))
            .timeout_connect(Some(patience.answer))
            .timeout_send_request(Some(patience.answer))
            .timeout_recv_response(Some(patience.answer))
            .timeout_per_read(Some(patience.silence))
            .timeout_per_write(Some(patience.silence))
            .max_redirects(10)
            .http_status_as_error(false)
            // Compressed once more it would not be the published file.
            .accept_encoding("identity")
            .user_agent(concat!("bakeoff/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(certificates()).build())
            .build();
        Self { agent: config.new_agent() }
    }

    /// Asks for a file from a byte on.
    pub(crate) fn get(&self, url: &str, from: u64) -> Result<Answer, ureq::Error> {
        let mut request = self.agent.get(url);
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        let response = request.call()?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let length = header("content-length").and_then(|text| text.trim().parse().ok());
        let range = header("content-range").and_then(content_range);
        Ok(match response.status().as_u16() {
            200 => Answer::Content {
                begin: 0,
                total: length,
                body: Box::new(response.into_body().into_reader()),
            },
            206 => match range {
                Some((begin, total)) => {
                    Answer::Content { begin, total, body: Box::new(response.into_body().into_reader()) }
                }
                None => Answer::Status(206),
            },
            416 => Answer::Beyond,
            status => Answer::Status(status),
        })
    }
}

/// `bytes 100-199/200`: the first byte and the length of the whole, where it is known.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}

/// The usual authorities, unless `SSL_CERT_FILE` names a file with others: those of a company's proxy, for example.
fn certificates() -> RootCerts {
    let Some(path) = std::env::var_os("SSL_CERT_FILE") else { return RootCerts::WebPki };
    let pem = match std::fs::read(&path) {
        Ok(pem) => pem,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "SSL_CERT_FILE cannot be read; the usual authorities count");
            return RootCerts::WebPki;
        }
    };
    let certificates = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect::<Vec<Certificate<'static>>>();
    RootCerts::from(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 100-199/200"), Some((100, Some(200))));
        assert_eq!(content_range("bytes 0-9/*"), Some((0, None)));
        assert_eq!(content_range("bytes */200"), None);
        assert_eq!(content_range("lines 1-2/3"), None);
    }
}
