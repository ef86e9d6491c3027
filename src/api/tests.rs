use super::*;

#[test]
fn lengths_of_time_are_read_as_people_write_them() {
    for (text, seconds) in [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("250ms", 0.25), ("1.5h", 5400.0)] {
        assert!((Span::from(text).duration().unwrap().as_secs_f64() - seconds).abs() < 1e-9, "{text}");
    }
    for text in ["", "10", "m", "-1s", "1d", "1 h", "1h30"] {
        assert!(Span::from(text).duration().is_err(), "{text:?}");
    }
}

#[test]
fn money_is_exact() {
    for (text, micros) in [("0.50", 500_000), ("1", 1_000_000), ("0.000001", 1), ("12.345678", 12_345_678)] {
        assert_eq!(Usd::from(text).micros(), Ok(MicroUsd(micros)), "{text}");
    }
    for text in ["", ".5", "1.", "-1", "0.0000001", "1e3", "$1", "NaN"] {
        assert!(Usd::from(text).micros().is_err(), "{text:?}");
    }
    assert_eq!(MicroUsd(1_000_001).to_string(), "1.000001");
}

/// C.5: the CRDs in `crds/` and in the chart are those of the types.
#[test]
fn the_committed_crds_are_the_generated_ones() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, crd) in crds() {
        let wanted = serde_saphyr::to_string(&crd).unwrap();
        for folder in ["crds", "charts/inquest/crds"] {
            let have = std::fs::read_to_string(root.join(folder).join(file)).unwrap_or_default();
            let have = have.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n");
            assert_eq!(have.trim(), wanted.trim(), "{folder}/{file} is not what the types say: run `make crds`");
        }
    }
}

#[test]
fn a_namespace_is_allowed_by_home_all_or_its_labels() {
    let labels = |v: &str| std::collections::BTreeMap::from([("team".to_owned(), v.to_owned())]);
    let allowed = |from, selector| AllowedNamespaces { from, selector };
    let none = std::collections::BTreeMap::new;
    assert!(allowed(NamespacesFrom::Same, none()).allows("a", "a", &none()));
    assert!(!allowed(NamespacesFrom::Same, none()).allows("a", "b", &none()));
    assert!(allowed(NamespacesFrom::All, none()).allows("a", "b", &none()));
    assert!(allowed(NamespacesFrom::Selector, labels("x")).allows("a", "b", &labels("x")));
    assert!(!allowed(NamespacesFrom::Selector, labels("x")).allows("a", "b", &labels("y")));
    assert!(!allowed(NamespacesFrom::Selector, none()).allows("a", "b", &labels("y")), "an empty selector selects nothing");
}
