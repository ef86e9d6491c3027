use super::Playbooks;

#[test]
fn the_shipped_playbooks_load() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/playbooks");
    let files: Vec<(String, String)> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).map(|p| (p.display().to_string(), std::fs::read_to_string(&p).unwrap())).collect();
    if let Err(e) = Playbooks::load(files.iter().map(|(f, t)| (f.as_str(), t.as_str()))) {
        panic!("{e}");
    }
}
