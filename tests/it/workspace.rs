//! S3.1, S3.2, S3.4, S3.5: the workspace tools over the served endpoint, used and attacked.

use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use inquest::{
    identity::SCOPE_TOOLS,
    tools::workspace::{Root, Settings, shell::Shell, tools},
};
use serde_json::{Value, json};

use crate::support::{LIMITS, Served, served};

/// A folder with what people keep in one, and traps; beside it a file that no call may reach.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

const OUTSIDE: &str = "OUTSIDE-THE-WORKSPACE";
const DECOY: &str = "DECOY-VALUE";

fn folder() -> Folder {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let base = std::env::temp_dir().join(format!("inquest-ws-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let root = base.join("root");
    for sub in ["runbooks", "app", "secrets", "deep/er/and/deeper", "blue", "red", "..2026_12_01"] {
        fs::create_dir_all(root.join(sub)).unwrap();
    }
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    write("runbooks/restart.md", "# Restart payments-api\nSymptom: dial tcp: connection refused\n1. Look at the last release.\n2. Roll back.\n");
    write("app/config.yaml", "timeout: 5\nurl: postgres://app:hunter22@db:5432/x\nretries: 3\n");
    write("app/app.log", "INFO ok\nERROR timeout after 5 s\nERROR timeout after 6 s\nINFO ok\n");
    write("app/big.log", &"a line of some length that repeats\n".repeat(20_000));
    write("deep/er/and/deeper/note.txt", "found deep down\n");
    write("red/own.txt", "red's own\n");
    write("blue/own.txt", "blue's own\n");
    write("-rf", "a file with a bad name\n");
    for secret in [
        "secrets/staging.env",
        ".env",
        ".env.local",
        "prod.env",
        "tls.pem",
        "tls.key",
        "id_rsa",
        "old_id_rsa.bak",
        "credentials.json",
        "my-secret.txt",
        "KUBECONFIG",
        ".netrc",
    ] {
        write(secret, &format!("PASSWORD={DECOY}\n"));
    }
    write("..2026_12_01/mounted.conf", "from a ConfigMap\n");
    symlink("..2026_12_01", root.join("..data")).unwrap();
    symlink("..data/mounted.conf", root.join("mounted.conf")).unwrap();
    fs::write(base.join("outside.txt"), OUTSIDE).unwrap();
    symlink(base.join("outside.txt"), root.join("absolute-link")).unwrap();
    symlink("../outside.txt", root.join("relative-link")).unwrap();
    symlink("../..", root.join("up")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("secrets/staging.env", root.join("harmless.txt")).unwrap();
    symlink("secrets", root.join("docs")).unwrap();
    symlink("/proc/self/environ", root.join("environ")).unwrap();
    fs::write(root.join("binary"), b"\x7fELF\0\0\0\x01timeout").unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    Folder(base)
}

async fn serve_folder(folder: &Folder, per_tenant: bool) -> Served {
    let shell = Shell::new(env!("CARGO_BIN_EXE_inquest").into(), vec!["/bin".into(), "/usr/bin".into()]);
    served(tools(Settings { root: Arc::new(Root::open(&folder.0.join("root")).unwrap()), per_tenant, shell }), SCOPE_TOOLS).await
}

#[tokio::test]
async fn s3_1_files_are_searched_and_read() {
    let folder = folder();
    let served = serve_folder(&folder, false).await;
    let (code, found) = served.call("search_files", json!({"pattern": "(?i)error.*timeout", "glob": "**/*.log"})).await;
    assert_eq!(code, None, "{found}");
    assert_eq!(found["matches"], json!(["app/app.log:2: ERROR timeout after 5 s", "app/app.log:3: ERROR timeout after 6 s"]));
    assert_eq!((found["files_searched"].as_u64(), found["complete"].as_bool()), (Some(2), Some(true)));
    // Capped, and says so.
    let (_, many) = served.call("search_files", json!({"pattern": "length"})).await;
    assert!(many["matches"].as_array().unwrap().len() <= 200 && many["complete"] == false && many["cut"].is_string(), "{many}");
    // None is one JSON object too.
    let (_, none) = served.call("search_files", json!({"pattern": "nowhere to be found"})).await;
    assert_eq!((none["matches"].clone(), none["complete"].as_bool()), (json!([]), Some(true)));
    // Nothing of a secret, of what lies outside, of a binary file; a mounted ConfigMap once, under the name that people know.
    for word in [DECOY, OUTSIDE, "ELF"] {
        assert_eq!(served.call("search_files", json!({"pattern": word})).await.1["matches"], json!([]), "{word}");
    }
    assert_eq!(served.call("search_files", json!({"pattern": "ConfigMap"})).await.1["matches"], json!(["mounted.conf:1: from a ConfigMap"]));

    let (_, read) = served.call("read_file", json!({"path": "runbooks/restart.md"})).await;
    assert_eq!(read["lines"].as_array().unwrap().len(), 4);
    assert_eq!((read["lines"][1].as_str(), read["complete"].as_bool()), (Some("Symptom: dial tcp: connection refused"), Some(true)));
    let (_, read) = served.call("read_file", json!({"path": "app/big.log"})).await;
    assert_eq!((read["lines"].as_array().unwrap().len(), read["cut"].as_str()), (120, Some("more lines follow: ask again with start_line 121")));
    let (_, read) = served.call("read_file", json!({"path": "app/big.log", "start_line": 19_999, "max_lines": 5})).await;
    assert_eq!(read["lines"].as_array().unwrap().len(), 2);
    let (_, read) = served.call("read_file", json!({"path": "app/config.yaml"})).await;
    assert_eq!(read["lines"][1], "url: postgres://app:[redacted:url-password]@db:5432/x");
}

#[tokio::test]
async fn s3_2_commands_run_without_a_shell() {
    let folder = folder();
    let served = serve_folder(&folder, false).await;
    for (command, wanted) in [
        ("cat runbooks/restart.md", "# Restart payments-api\n"),
        ("head -1 app/app.log", "INFO ok\n"),
        ("head -n1 app/app.log", "INFO ok\n"),
        ("tail --lines=1 app/config.yaml", "retries: 3\n"),
        ("wc -l app/app.log", "4 app/app.log\n"),
        ("grep -c ERROR app/app.log", "2\n"),
        ("grep -rn 'found deep' deep", "deep/er/and/deeper/note.txt:1:found deep down\n"),
        ("grep -r timeout", "app/config.yaml:timeout: 5\n"),
        ("grep -in -A1 'symptom: dial' runbooks/restart.md", "3-1. Look at the last release.\n"),
        ("grep -e ERROR --max-count=1 app/app.log", "ERROR timeout after 5 s\n"),
        ("grep exec app/app.log", ""),
        ("find . -name '*.md' -type f", "./runbooks/restart.md\n"),
        ("find deep -maxdepth 1", "deep\ndeep/er\n"),
        ("find app ! -name '*.log' -type f", "app/config.yaml\n"),
        ("sort -r app/config.yaml", "timeout: 5\n"),
        ("sort -t : -k 2 app/config.yaml", "retries: 3\n"),
        ("uniq -c app/app.log", "1 INFO ok\n"),
        ("stat -c '%n %s' red/own.txt", "red/own.txt 10\n"),
        ("ls app", "app.log\nbig.log\nconfig.yaml\n"),
        ("ls -1 secrets", "staging.env\n"),
        ("cat -- -rf", "a file with a bad name\n"),
        ("cat mounted.conf", "from a ConfigMap\n"),
        ("date +%Y", "20"),
        ("du -sk deep", "deep\n"),
    ] {
        let (code, ran) = served.call("run_shell", json!({"command": command})).await;
        assert_eq!(code, None, "{command}: {ran}");
        assert!(ran["stdout"].as_str().unwrap().contains(wanted), "{command}: {ran}");
        assert!(!ran.to_string().contains(DECOY) && !ran.to_string().contains(OUTSIDE), "{command}: {ran}");
        assert_eq!(ran["complete"], true, "{command}: {ran}");
    }
    // What a command itself finds wrong is its answer, and no refusal.
    let (code, ran) = served.call("run_shell", json!({"command": "grep nothing-like-it app/app.log"})).await;
    assert_eq!((code, ran["exit_code"].as_i64()), (None, Some(1)));
    // 8 KiB at most.
    let (_, ran) = served.call("run_shell", json!({"command": "cat app/big.log"})).await;
    assert_eq!((ran["stdout"].as_str().unwrap().len(), ran["complete"].as_bool()), (8192, Some(false)), "{}", ran["cut"]);
    // A folder is searched without what is secret in it.
    let (_, ran) = served.call("run_shell", json!({"command": "grep -r PASSWORD ."})).await;
    assert_eq!((ran["stdout"].as_str(), ran["exit_code"].as_i64()), (Some(""), Some(1)), "{ran}");
}

/// Each input, and the code that must answer it. By class: words of paths, hidden characters, links, secrets, special files, patterns, and of
/// `run_shell` metacharacters, commands, options, paths.
fn attacks() -> Vec<(&'static str, Value, &'static str)> {
    const OUT: &str = "path_outside_workspace";
    const HIDDEN: &str = "hidden_characters";
    const SECRET: &str = "secret_file_denied";
    const FILE: &str = "not_a_regular_file";
    const META: &str = "metacharacter_denied";
    const COMMAND: &str = "command_denied";
    const OPTION: &str = "option_denied";
    const BAD: &str = "invalid_argument";
    const NONE: &str = "not_found";
    let mut all = vec![];
    let mut read = |path: &str, code| all.push(("read_file", json!({"path": path}), code));
    for path in [
        "../outside.txt",
        "..",
        "../",
        "runbooks/../../outside.txt",
        "./../outside.txt",
        "a/b/../../../outside.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "/proc/self/environ",
        "/proc/1/root/etc/shadow",
        "~/.ssh/id_rsa",
        "~",
        "~root/x",
        "..\\outside.txt",
        "runbooks\\..\\..\\x",
        "C:\\windows\\win.ini",
        "file/../..//outside.txt",
        "/workspace/../etc/passwd",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
    ] {
        read(path, OUT);
    }
    for path in [
        "runbooks\u{2215}restart.md",
        "\u{2024}\u{2024}/outside.txt",
        "\u{ff0e}\u{ff0e}/outside.txt",
        "..\u{ff0f}outside.txt",
        "runbooks/\u{200b}restart.md",
        "runbooks/restart\u{202e}dm.",
        "a\u{0}b",
        "a\nb",
        "a\tb",
        "\u{feff}app",
        "app\u{ad}",
        "app/\u{2066}x",
        "app/\u{1b}[2J",
        "app\u{a0}x",
        "app\u{3000}x",
        "\u{ff5e}/x",
        "app\u{fe0f}",
        "app\u{3164}",
        "app\u{2029}x",
        "app\u{e0001}",
        "\u{2026}/outside.txt",
        "app\u{29f8}x",
    ] {
        read(path, HIDDEN);
    }
    for path in ["absolute-link", "relative-link", "up", "up/outside.txt", "slash/etc/passwd", "slash", "loop", "environ"] {
        read(path, OUT);
    }
    for path in [
        "secrets/staging.env",
        ".env",
        ".env.local",
        "prod.env",
        "tls.pem",
        "tls.key",
        "id_rsa",
        "old_id_rsa.bak",
        "credentials.json",
        "my-secret.txt",
        "KUBECONFIG",
        ".netrc",
        "harmless.txt",
        "docs/staging.env",
        "./secrets//staging.env",
        "secrets/./staging.env",
    ] {
        read(path, SECRET);
    }
    for path in ["pipe", "binary", "app", "."] {
        read(path, FILE);
    }
    read("", BAD);
    read("nowhere.txt", NONE);
    read("app/app.log/x", NONE);
    read(&"a".repeat(300), BAD);
    read(&"a/".repeat(3000), BAD);
    for arguments in [
        json!({}),
        json!({"path": ["app/app.log"]}),
        json!({"path": null}),
        json!({"path": "app/app.log", "max_lines": 0}),
        json!({"path": "app/app.log", "max_lines": -1}),
        json!({"path": "app/app.log", "max_lines": 1e9}),
        json!({"path": "app/app.log", "max_lines": 18_446_744_073_709_551_615_u64}),
        json!({"path": "app/app.log", "start_line": 0}),
        json!({"path": "app/app.log", "root": "/"}),
        json!({"path": "app/app.log", "tenant": "red"}),
    ] {
        all.push(("read_file", arguments, BAD));
    }
    for pattern in ["", "(", "[", "a{1000}{1000}{1000}", "(?P<x>", "\\", "*", "(a*)*(?=b)", "(?<!a)b", "\\1", "((((((((((a{100}){100}){100}))))))))"] {
        all.push(("search_files", json!({"pattern": pattern}), BAD));
    }
    all.push(("search_files", json!({"pattern": "x".repeat(600)}), BAD));
    all.push(("search_files", json!({"pattern": format!("{}a{}", "(".repeat(200), ")".repeat(200))}), BAD));
    for glob in ["**/**/**/**/**/**/**", "{a,{b,{c,{d,{e,f}}}}}", "[", "{a,b"] {
        all.push(("search_files", json!({"pattern": "x", "glob": glob}), BAD));
    }
    for glob in ["/etc/*", "../**", "runbooks/../../*", "~/*"] {
        all.push(("search_files", json!({"pattern": "x", "glob": glob}), OUT));
    }
    all.push(("search_files", json!({"pattern": "x", "glob": "**/\u{202e}*"}), HIDDEN));
    let mut run = |command: &str, code| all.push(("run_shell", json!({"command": command}), code));
    for command in [
        "cat app/app.log; id",
        "cat app/app.log | tail",
        "ls & id",
        "ls && id",
        "ls || id",
        "cat < /etc/passwd",
        "ls > x",
        "ls >> x",
        "ls 2>&1",
        "ls `id`",
        "ls $(id)",
        "cat $HOME/x",
        "cat ${PATH}",
        "ls\nid",
        "ls\r\nid",
        "cat {a,b}",
        "grep 'a|b' app/app.log",
        "echo 'x' > /tmp/x",
        "ls \"$(id)\"",
        "(ls)",
        "cat <(ls)",
    ] {
        run(command, META);
    }
    for command in [
        "rm -rf .",
        "mv a b",
        "cp app/app.log x",
        "chmod 777 x",
        "chown root x",
        "curl http://x",
        "wget http://x",
        "sudo ls",
        "apt install x",
        "pip install x",
        "python -c 1",
        "kubectl delete pod x",
        "sh -c ls",
        "bash -c ls",
        "/bin/sh",
        "busybox sh",
        "ls rm",
        "cat app/../rm",
        "find . -name rm",
        "grep curl app/app.log",
        "/bin/ls",
        "./ls",
        "LS",
        "ls.exe",
        "env",
        "printenv",
        "echo hi",
        "awk 1 app/app.log",
        "sed -n 1p app/app.log",
        "perl -e 1",
        "tar cf x .",
        "less app/app.log",
        "vi app/app.log",
        "git log",
        "id",
        "PATH=/tmp ls",
        "/usr/bin/env ls",
        "'rm' x",
        "r\\m x",
        "\"r\"m x",
        "nc -l 1",
        "ssh host",
        "xargs ls",
        "dd if=x",
    ] {
        run(command, COMMAND);
    }
    for command in [
        "find . -exec id",
        "find . -execdir id",
        "find . -ok id",
        "find . -delete",
        "find . -fprintf x %p",
        "find . -fprint x",
        "find . -fls x",
        "find . -newer app",
        "find . -printf %p",
        "find -L .",
        "find . -follow",
        "find . -files0-from app/app.log",
        "find . -regex x",
        "sort -o x app/app.log",
        "sort --output=x app/app.log",
        "sort -ox app/app.log",
        "sort --out=x app/app.log",
        "sort -T /tmp app/app.log",
        "sort --compress-program=id app/app.log",
        "sort --files0-from=app/app.log",
        "sort -S 1G app/app.log",
        "date -s 2020-01-01",
        "date --set=2020-01-01",
        "date -f app/app.log",
        "date -r /etc/passwd",
        "date --file=app/app.log",
        "grep -f /etc/passwd app/app.log",
        "grep --file=app/app.log x app/app.log",
        "grep -nf app/app.log x",
        "grep -P x app/app.log",
        "grep -R x .",
        "grep --include=x -r y .",
        "grep --exclude-from=app/app.log -r x .",
        "grep --devices=read x pipe",
        "wc --files0-from=app/app.log",
        "du --files0-from=app/app.log",
        "du -L .",
        "du --exclude-from=app/app.log .",
        "du -X app/app.log",
        "ls -L up",
        "ls --hyperlink=always",
        "ls -H up",
        "ls --dereference up",
        "tail -f app/app.log",
        "tail -F app/app.log",
        "tail --follow=name app/app.log",
        "tail --pid=1 -f app/app.log",
        "stat -L up",
        "stat -f .",
        "stat --printf=x app",
        "cat -A app/app.log",
        "head --lines",
        "uniq --group app/app.log",
        "grep -rx=1 y .",
        "grep --recursive=x y .",
        "ls --all=x",
        "cat --number=3 app/app.log",
    ] {
        if command != "head --lines" {
            run(command, OPTION);
        }
    }
    for command in [
        "cat /etc/passwd",
        "cat ../outside.txt",
        "cat runbooks/../../outside.txt",
        "cat ~/.ssh/config",
        "cat absolute-link",
        "cat relative-link",
        "cat up/outside.txt",
        "cat environ",
        "cat loop",
        "grep x /etc/passwd",
        "grep -e x -- /etc/passwd",
        "grep -rn x /",
        "grep -r x ..",
        "grep -r x up",
        "head -n 1 /etc/passwd",
        "tail -c 5 /etc/passwd",
        "wc /etc/passwd",
        "sort /etc/passwd",
        "uniq /etc/passwd",
        "ls /",
        "ls ..",
        "ls -la /root",
        "ls up",
        "ls slash/etc",
        "find /",
        "find .. -name x",
        "find slash",
        "find up",
        "du /",
        "du slash",
        "stat /etc/passwd",
        "stat slash",
        "cat \\/etc\\/passwd",
        "cat '/etc/passwd'",
        "cat \"/etc\"/passwd",
        "ls 'app/../..'",
        "cat /dev/zero",
        "cat /proc/self/environ",
    ] {
        run(command, OUT);
    }
    for command in [
        "cat .env",
        "cat secrets/staging.env",
        "head tls.key",
        "grep x harmless.txt",
        "tail docs/staging.env",
        "wc -c credentials.json",
        "sort my-secret.txt",
        "uniq id_rsa",
        "cat app/app.log .netrc",
    ] {
        run(command, SECRET);
    }
    for command in ["cat pipe", "cat app", "head pipe", "wc pipe", "find pipe", "grep x app", "ls pipe"] {
        run(command, FILE);
    }
    for command in [
        "",
        "   ",
        "cat",
        "grep",
        "grep x",
        "head -n",
        "head -n x app/app.log",
        "head -n 1e9 app/app.log",
        "tail -n -99999999999 app/app.log",
        "cat 'app",
        "cat app/*.log",
        "ls a?b",
        "cat [a]",
        "uniq app/app.log x",
        "date 010100002020",
        "sort -k x app/app.log",
        "sort -t ab app/app.log",
        "find . -type b",
        "find . -size 1X",
        "find . -maxdepth x",
        "find . -name",
        "find . !",
        "stat -c '%n\"' x",
        "date +%Y x",
        "head --lines",
        "date '+%Y%n\"'",
    ] {
        run(command, BAD);
    }
    run(&format!("cat {}", "a ".repeat(1500)), BAD);
    run(&format!("cat {}", "a ".repeat(100)), BAD);
    for command in ["cat app/\u{202e}x", "cat \u{2024}\u{2024}/x", "ls\u{0}", "ls\t-l", "c\u{430}t\u{200b} app/app.log"] {
        run(command, HIDDEN);
    }
    run("cat nowhere.txt", NONE);
    all.push(("run_shell", json!({"command": ["ls"]}), BAD));
    all.push(("run_shell", json!({"command": "ls", "cwd": "/"}), BAD));
    all.push(("run_shell", json!({"command": "ls", "env": {"LD_PRELOAD": "x"}}), BAD));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_4_no_attack_on_the_workspace_passes() {
    let folder = folder();
    let served = serve_folder(&folder, false).await;
    let attacks = attacks();
    let count = served.all_refused(&attacks).await;
    // Each is counted under its tool and code.
    for (tool, code) in [("read_file", "path_outside_workspace"), ("run_shell", "option_denied"), ("search_files", "invalid_argument")] {
        let sent = attacks.iter().filter(|(t, _, c)| (*t, *c) == (tool, code)).count();
        assert_eq!(served.counted(tool, code).await, sent as u64, "{tool} {code}");
    }
    assert!(count >= 150, "{count}");
    println!("{count} attacks on the workspace, none passed");
    // What stands behind the guards was never asked to write: the folder is as it was.
    assert!(!folder.0.join("root/x").exists());
}

#[tokio::test]
async fn s3_2_without_its_commands_a_workspace_says_so() {
    let folder = folder();
    let shell = Shell::new(env!("CARGO_BIN_EXE_inquest").into(), vec![folder.0.join("nothing")]);
    let served = served(tools(Settings { root: Arc::new(Root::open(&folder.0.join("root")).unwrap()), per_tenant: false, shell }), SCOPE_TOOLS).await;
    let (code, said) = served.call("run_shell", json!({"command": "ls"})).await;
    assert_eq!(code.as_deref(), Some("sandbox_unavailable"), "{said}");
}

/// A link that changes between two targets all the time: whichever of them a check sees, what lies outside is never read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_4_a_link_swapped_between_check_and_use_opens_nothing() {
    let folder = folder();
    let served = serve_folder(&folder, false).await;
    let (root, done) = (folder.0.join("root"), Arc::new(AtomicBool::new(false)));
    let swapper = std::thread::spawn({
        let (root, done) = (root.clone(), Arc::clone(&done));
        move || {
            let mut turn = 0_u64;
            while !done.load(Ordering::Relaxed) {
                for target in ["app/app.log", "../outside.txt", "secrets/staging.env", "/etc/passwd"] {
                    symlink(target, root.join("next")).unwrap();
                    fs::rename(root.join("next"), root.join("swap")).unwrap();
                    turn += 1;
                }
            }
            turn
        }
    });
    let connection = served.connect().await;
    let token = served.token("demo");
    let (mut ok, mut refused) = (0, 0);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        for (tool, arguments) in [
            ("read_file", json!({"path": "swap"})),
            ("run_shell", json!({"command": "cat swap"})),
            ("run_shell", json!({"command": "grep -rh : ."})),
            ("search_files", json!({"pattern": "PASSWORD|OUTSIDE|root:|INFO", "glob": "swap"})),
        ] {
            let got = connection.call(tool, &arguments, Some(&token), LIMITS).await;
            assert!(!got.text.contains(OUTSIDE) && !got.text.contains(DECOY) && !got.text.contains("root:x"), "{tool}: {}", got.text);
            if got.code.is_none() { ok += 1 } else { refused += 1 }
        }
    }
    done.store(true, Ordering::Relaxed);
    let turns = swapper.join().unwrap();
    assert!(turns > 100 && ok > 5 && refused > 0, "{turns} swaps, {ok} read, {refused} refused: the race did not happen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_2_a_command_ends_in_time_and_with_all_that_it_started() {
    let folder = folder();
    // A sparse file: a terabyte that takes no disk, and no end of time to sort.
    fs::File::create(folder.0.join("root/huge.txt")).unwrap().set_len(1 << 40).unwrap();
    let served = serve_folder(&folder, false).await;
    let started = Instant::now();
    let (code, ran) = served.call("run_shell", json!({"command": "wc -w huge.txt"})).await;
    assert!(started.elapsed() < Duration::from_secs(14), "{:?}", started.elapsed());
    assert!(code.is_none() && ran["complete"] == false && ran["exit_code"].is_null(), "{ran}");
    // A search through it ends at its bound.
    let (_, found) = served.call("search_files", json!({"pattern": "x", "glob": "huge.txt"})).await;
    assert!(found["matches"].as_array().unwrap().is_empty());
    // A caller who goes away takes the command along.
    let connection = served.connect().await;
    let token = served.token("demo");
    let arguments = json!({"command": "tail -c 999999999 huge.txt"});
    let _late = tokio::time::timeout(Duration::from_millis(300), connection.call("run_shell", &arguments, Some(&token), LIMITS)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(processes_with(&folder.0), Vec::<String>::new());
}

/// Commands that still run with this folder as their own.
fn processes_with(folder: &Path) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(cwd) = fs::read_link(entry.path().join("cwd"))
            && cwd.starts_with(folder)
        {
            found.push(fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default());
        }
    }
    found
}

#[tokio::test]
async fn s3_1_a_file_that_grows_and_one_that_is_made_of_one_line_are_bounded() {
    let folder = folder();
    let path = folder.0.join("root/grows.log");
    fs::write(&path, "x".repeat(40 << 20)).unwrap();
    let served = serve_folder(&folder, false).await;
    let (code, read) = served.call("read_file", json!({"path": "grows.log"})).await;
    assert!(code.is_none() && read["lines"][0].as_str().unwrap().len() <= 1000, "{code:?}");
    assert_eq!(read["complete"], false);
    let done = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            while !done.load(Ordering::Relaxed) && file.metadata().unwrap().len() < (400 << 20) {
                file.write_all(&vec![b'\n'; 65_536]).unwrap();
            }
        }
    });
    let started = Instant::now();
    let (code, found) = served.call("search_files", json!({"pattern": "y", "glob": "grows.log"})).await;
    done.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(code.is_none() && started.elapsed() < Duration::from_secs(10), "{found}");
}

#[tokio::test]
async fn s1_9_each_tenant_has_its_own_folder() {
    let folder = folder();
    let served = serve_folder(&folder, true).await;
    let connection = served.connect().await;
    for (tenant, other) in [("red", "blue"), ("blue", "red")] {
        let token = served.token(tenant);
        let call = |tool: &'static str, arguments: Value| {
            let (connection, token) = (&connection, &token);
            async move { connection.call(tool, &arguments, Some(token), LIMITS).await }
        };
        assert!(call("read_file", json!({"path": "own.txt"})).await.text.contains(&format!("{tenant}'s own")));
        assert!(call("run_shell", json!({"command": "cat own.txt"})).await.text.contains(&format!("{tenant}'s own")));
        let all = call("search_files", json!({"pattern": "own"})).await.text;
        assert!(all.contains(&format!("{tenant}'s own")) && !all.contains(&format!("{other}'s own")), "{all}");
        assert_eq!(call("read_file", json!({"path": format!("../{other}/own.txt")})).await.code.as_deref(), Some("path_outside_workspace"));
        assert_eq!(call("read_file", json!({"path": format!("{other}/own.txt")})).await.code.as_deref(), Some("not_found"));
        assert!(!call("run_shell", json!({"command": "find . -name '*.txt'"})).await.text.contains(other));
    }
    assert_eq!(connection.call("read_file", &json!({"path": "own.txt"}), Some(&served.token("green")), LIMITS).await.code.as_deref(), Some("not_found"));
    // A tenant named after a link.
    symlink("red", folder.0.join("root/pink")).unwrap();
    symlink("..", folder.0.join("root/parent")).unwrap();
    assert_eq!(
        connection.call("run_shell", &json!({"command": "ls"}), Some(&served.token("parent")), LIMITS).await.code.as_deref(),
        Some("path_outside_workspace")
    );
}
