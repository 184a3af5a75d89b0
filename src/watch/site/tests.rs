use super::super::{DescriptorCost, Facts, Watch};
use super::*;
use crate::events::{LogHead, ServerEvent};
use http_body_util::BodyExt;

fn facts() -> Facts {
    Facts {
        federation: "demo </script> consortium".to_owned(),
        rounds: 3,
        clients: 8,
        organisations: 4,
        threshold: 5,
        crowd: 2,
        crowd_orgs: 2,
        descriptors: DescriptorCost::Nothing,
        clusterings: 0,
        witnesses: Vec::new(),
        round: 1,
        head: LogHead {
            size: 10,
            root: "ab".repeat(32),
        },
    }
}

fn desk(hosts: &[&str]) -> (Desk, Arc<Watch>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("log.veil"), b"").unwrap();
    let watch = Watch::new(facts());
    let desk = Desk {
        subject: Arc::clone(&watch) as Arc<dyn Subject>,
        disk: probe(&dir),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    };
    (desk, watch, dir)
}

fn probe(dir: &tempfile::TempDir) -> LogProbe {
    LogProbe::new(dir.path().to_path_buf(), Some("log.veil"))
}

fn request(method: Method, path: &str, hosts: &[&str]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(path);
    for host in hosts {
        request = request.header(header::HOST, *host);
    }
    request.body(()).unwrap()
}

async fn ask(desk: &Desk, path: &str) -> (StatusCode, HeaderMap, String) {
    let response = desk
        .answer(&request(Method::GET, path, &["127.0.0.1:9464"]))
        .await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        parts.status,
        parts.headers,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn only_those_who_mean_this_server_are_answered() {
    let (desk, _watch, _dir) = desk(&["watch.example.org"]);
    for fine in [
        "127.0.0.1",
        "127.0.0.1:9464",
        "localhost:9464",
        "LOCALHOST",
        "[::1]:9464",
        "192.0.2.7",
        "watch.example.org",
        "Watch.Example.Org:443",
    ] {
        let answer = desk.answer(&request(Method::GET, "/healthz", &[fine])).await;
        assert_eq!(answer.status(), StatusCode::OK, "{fine}");
    }
    for bad in [
        &["evil.example"][..],
        &["evil.example:9464"],
        &["localhost.evil.example"],
        &["127.0.0.1.evil.example"],
        &["user@127.0.0.1"],
        &["watch.example.org.evil.example"],
        &["1.2.3"],
        &[""],
        &["127.0.0.1", "evil.example"],
        &[],
    ] {
        let answer = desk.answer(&request(Method::GET, "/state.json", bad)).await;
        assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{bad:?}");
        assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY));
    }
    // The address of the request itself counts before its `Host` line (RFC 9112, 3.2.2).
    let absolute = request(Method::GET, "http://evil.example/state.json", &["127.0.0.1"]);
    assert_eq!(
        desk.answer(&absolute).await.status(),
        StatusCode::MISDIRECTED_REQUEST
    );
}

#[tokio::test]
async fn nothing_can_be_changed() {
    let (desk, _watch, _dir) = desk(&[]);
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::OPTIONS,
    ] {
        for path in ["/", "/state.json", "/metrics", "/nowhere"] {
            let answer = desk.answer(&request(method.clone(), path, &["localhost"])).await;
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(answer.headers().get(header::ALLOW).unwrap(), "GET, HEAD");
        }
    }
    let answer = desk.answer(&request(Method::HEAD, "/", &["localhost"])).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(ask(&desk, "/nowhere").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&desk, "//").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&desk, "/metrics/").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_answer_is_kept_from_other_pages() {
    let (desk, _watch, _dir) = desk(&[]);
    for path in ["/", "/state.json", "/metrics", "/healthz", "/readyz", "/nowhere"] {
        let (_, headers, _) = ask(&desk, path).await;
        let policy = headers
            .get(header::CONTENT_SECURITY_POLICY)
            .unwrap()
            .to_str()
            .unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(
            headers.get("cross-origin-resource-policy").unwrap(),
            "same-origin"
        );
        assert_eq!(headers.get(header::X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff");
        assert_eq!(headers.get(header::CACHE_CONTROL).unwrap(), "no-store");
        assert!(!headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere_and_its_policy_fits_it() {
    let (desk, _watch, _dir) = desk(&[]);
    let (status, headers, html) = ask(&desk, "/").await;
    assert_eq!(status, StatusCode::OK);
    let policy = headers
        .get(header::CONTENT_SECURITY_POLICY)
        .unwrap()
        .to_str()
        .unwrap();
    // One script and one style, both hashed; anything else inline would be blocked, and silently so.
    for element in ["script", "style"] {
        assert_eq!(html.matches(&format!("<{element}>")).count(), 1);
        assert_eq!(html.matches(&format!("<{element}")).count(), 1);
        let empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert!(
            policy.contains(&format!("{element}-src 'sha256-")) && !policy.contains(empty),
            "{policy}"
        );
    }
    for forbidden in [
        "http://",
        "https://",
        " style=",
        " onclick",
        " onload",
        "innerHTML",
        "src=",
    ] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

#[tokio::test]
async fn ready_says_why_not() {
    let (desk, watch, dir) = desk(&[]);
    let (status, _, said) = ask(&desk, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        said,
        "the server is starting\n0 clients are connected, and a round needs 5: start more clients\n"
    );
    watch.observe(&ServerEvent::Listening { addr: "x".to_owned() });
    for client in 0..5 {
        watch.observe(&ServerEvent::Connected {
            client,
            connected: client + 1,
            expected: 8,
        });
        // A client that comes back is one client.
        watch.observe(&ServerEvent::Connected {
            client: 0,
            connected: client + 1,
            expected: 8,
        });
    }
    assert_eq!(ask(&desk, "/readyz").await.2, "ready\n");
    assert_eq!(ask(&desk, "/readyz").await.0, StatusCode::OK);
    assert!(ask(&desk, "/state.json").await.2.contains("\"ready\":true"));
    assert!(
        !dir.path().join("watch.probe").exists(),
        "the trial leaves nothing behind"
    );

    watch.observe(&ServerEvent::Witnessed {
        entries: 12,
        quorum: false,
        witnesses: Vec::new(),
    });
    let said = ask(&desk, "/readyz").await.2;
    assert!(
        said.starts_with("too few witnesses cosigned the log of 12 entries"),
        "{said}"
    );
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told() {
    let (mut desk, _watch, dir) = desk(&[]);
    // A folder where the log should be: no right to write helps, not even root's.
    std::fs::remove_file(dir.path().join("log.veil")).unwrap();
    std::fs::create_dir(dir.path().join("log.veil")).unwrap();
    let said = ask(&desk, "/readyz").await.2;
    assert!(
        said.contains("the log cannot be written: Is a directory"),
        "{said}"
    );
    std::fs::remove_dir(dir.path().join("log.veil")).unwrap();
    std::fs::write(dir.path().join("log.veil"), b"").unwrap();
    // A fresh trial, and a place where nothing can be written beside the log.
    desk.disk = probe(&dir);
    std::fs::create_dir(dir.path().join("watch.probe")).unwrap();
    let said = ask(&desk, "/readyz").await.2;
    assert!(said.contains("the log cannot be written"), "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_lets_files_be_opened_and_is_told_all_the_same() {
    let (desk, _watch, dir) = desk(&[]);
    std::os::unix::fs::symlink("/dev/full", dir.path().join("watch.probe")).unwrap();
    let said = ask(&desk, "/readyz").await.2;
    assert!(
        said.contains("the log cannot be written: No space left on device"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_phase_far_past_its_deadline_is_unhealthy() {
    let (desk, watch, _dir) = desk(&[]);
    let phase = |have| ServerEvent::Phase {
        round: 1,
        phase: "mask".to_owned(),
        have,
        want: 8,
        deadline_ms: 1_000,
        bytes_in: 0,
        bytes_out: 0,
    };
    watch.observe(&phase(0));
    tokio::time::sleep(std::time::Duration::from_secs(50)).await;
    assert_eq!(ask(&desk, "/healthz").await.0, StatusCode::OK);
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    let (status, _, said) = ask(&desk, "/healthz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(said.starts_with("round 1 is 61 s past the deadline"), "{said}");
    watch.observe(&phase(1));
    assert_eq!(ask(&desk, "/healthz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = WatchConfig {
        listen: taken.local_addr().unwrap(),
        public: false,
        hosts: Vec::new(),
    };
    let log = LogProbe::new("nowhere".into(), None);
    let error = Site::bind(&config, Watch::new(facts()), log).await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains(&config.listen.to_string()) && said.contains("watch.listen"),
        "{said}"
    );
}
