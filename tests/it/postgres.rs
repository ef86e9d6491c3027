//! A PostgreSQL server of a test's own, in a folder that goes with it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

pub struct Postgres {
    folder: PathBuf,
    bin: PathBuf,
    port: u16,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _stopped = self.run("pg_ctl", &["-D", self.data().to_str().unwrap(), "-m", "immediate", "stop"]);
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Postgres {
    /// Starts one, with TLS by a certificate that its own authority signed.
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let bin = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path().join("bin"))
            .filter(|p| p.join("initdb").exists())
            .max()
            .expect("PostgreSQL's server is needed: run tests/services.sh, or apt-get install postgresql");
        let folder = std::env::temp_dir().join(format!("inquest-pg-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { folder, bin, port };
        server.certificates();
        if is_root() {
            assert!(Command::new("chown").args(["-R", "postgres:"]).arg(&server.folder).status().unwrap().success());
        }
        let data = server.data();
        let data = data.to_str().unwrap();
        server.must("initdb", &["-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--no-instructions"]);
        let folder = server.folder.display();
        let options = format!(
            "-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off -c ssl=on -c ssl_cert_file={folder}/server.pem -c ssl_key_file={folder}/server.key"
        );
        server.must("pg_ctl", &["-D", data, "-w", "-t", "30", "-l", &format!("{folder}/log"), "-o", &options, "start"]);
        server
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=require", self.port)
    }

    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    pub fn sql(&self, text: &str) -> String {
        let port = self.port.to_string();
        let out = self.must("psql", &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-qtA", "-c", text]);
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    /// As if the machine were gone: nothing answers.
    pub fn stop(&self) {
        self.must("pg_ctl", &["-D", self.data().to_str().unwrap(), "-m", "immediate", "-w", "stop"]);
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn certificates(&self) {
        let f = |name: &str| self.folder.join(name).to_str().unwrap().to_owned();
        let openssl = |args: &[&str]| {
            let out = Command::new("openssl").args(args).stdin(Stdio::null()).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        };
        let new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        openssl(&[&["req", "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", &f("ca.key"), "-out", &f("ca.pem")], &new[..]].concat());
        openssl(&[&["req", "-subj", "/CN=127.0.0.1", "-keyout", &f("server.key"), "-out", &f("server.csr")], &new[..]].concat());
        fs::write(f("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        openssl(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &f("server.csr"),
            "-CA",
            &f("ca.pem"),
            "-CAkey",
            &f("ca.key"),
            "-CAcreateserial",
            "-extfile",
            &f("names"),
            "-out",
            &f("server.pem"),
        ]);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(f("server.key"), mode).unwrap();
    }

    fn must(&self, program: &str, args: &[&str]) -> Output {
        let out = self.run(program, args);
        assert!(out.status.success(), "{program} {args:?}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        out
    }

    /// It refuses to run as root.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        let program = self.bin.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // `pg_ctl start` leaves a server that would hold a pipe open for ever.
        let log = self.folder.join("out");
        let file = fs::File::create(&log).unwrap();
        let status = command.args(args).current_dir(Path::new("/")).stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).status().unwrap();
        let stdout = fs::read(&log).unwrap_or_default();
        Output { status, stdout, stderr: vec![] }
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Waits for what must come.
pub async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done().await {
        assert!(Instant::now() < until, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
