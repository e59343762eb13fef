//! Tests of the lists of links.

use super::*;
use proptest::prelude::*;

const GOOD: &str =
    "from,to,rate,latency,duplex\nnpu0,switch0,100Gb/s,500ns,yes\nswitch0,npu1,25GB/s,0.5us,no\n";

fn csv(text: &str) -> Result<Edges> {
    Edges::csv(&Source::new("f.csv", text))
}
fn yaml(text: &str) -> Result<Edges> {
    Edges::yaml(&Source::new("f.yaml", text))
}

fn good() -> Edges {
    let edge = |from, to, rate: &str, latency: &str| Edge {
        from,
        to,
        rate: rate.parse().unwrap(),
        latency: latency.parse().unwrap(),
    };
    Edges {
        npus: 2,
        switches: 1,
        links: vec![
            edge(0, 2, "100Gb/s", "500ns"),
            edge(2, 0, "100Gb/s", "500ns"),
            edge(2, 1, "25GB/s", "0.5us"),
        ],
    }
}

#[test]
fn both_forms_say_the_same() {
    assert_eq!(csv(GOOD).unwrap(), good());
    let text = "links:\n  - { from: npu0, to: switch0, rate: 100Gb/s, latency: 500ns }\n  - from: switch0\n    to: npu1\n    rate: 25GB/s\n    latency: 0.5us\n    duplex: no\n";
    assert_eq!(yaml(text).unwrap(), good());
    let json = r#"{"links": [{"from": "npu0", "to": "switch0", "rate": "100Gb/s", "latency": "500ns", "duplex": "yes"},
        {"from": "switch0", "to": "npu1", "rate": "25GB/s", "latency": "0.5us", "duplex": "no"}]}"#;
    assert_eq!(yaml(json).unwrap(), good());
}

#[test]
fn columns_may_come_in_any_order_and_links_in_parallel() {
    let text =
        "\u{feff}latency, rate, to, from\n# two cables\n1ns, 1GB/s, npu1, npu0\n1ns, 1GB/s, npu1, npu0\n";
    assert_eq!(csv(text).unwrap().links.len(), 4);
}

#[test]
fn errors_name_line_and_column() {
    for (text, code, line, key, message) in [
        ("", Code::MissingKey, 1, "from", "the header lacks a column"),
        ("from,to,rate\n", Code::MissingKey, 1, "latency", "the header lacks a column"),
        ("from,to,rate,latency,from\n", Code::BadSyntax, 1, "from", "a column occurs twice"),
        ("from,to,rate,latency\nnpu0,npu1,1GB/s\n", Code::BadSyntax, 2, "", "another number of fields"),
        ("from,to,rate,latency\n\nnpu0,npu1,1,1ns\n", Code::BadUnit, 3, "rate", ""),
        ("from,to,rate,latency\nnpu0,npu1,1GB/s,-1ns\n", Code::BadUnit, 2, "latency", ""),
        ("from,to,rate,latency\nnpu0,npu1,0GB/s,1ns\n", Code::BadFabric, 2, "rate", "above zero"),
        ("from,to,rate,latency\nnpu0,npu0,1GB/s,1ns\n", Code::BadFabric, 2, "to", "with itself"),
        ("from,to,rate,latency\nnpu0,gpu1,1GB/s,1ns\n", Code::BadValue, 2, "to", "an NPU or a switch"),
        ("from,to,rate,latency\nnpu-1,npu1,1GB/s,1ns\n", Code::BadValue, 2, "from", "an NPU or a switch"),
        ("from,to,rate,latency\nnpu0,npu4294967296,1GB/s,1ns\n", Code::BadFabric, 2, "to", "too large"),
        ("from,to,rate,latency\nnpu0,switch99999999,1GB/s,1ns\n", Code::BadFabric, 2, "to", "too large"),
        ("from,to,rate,latency\nnpu0,npu2,1GB/s,1ns\n", Code::BadFabric, 0, "", "npu1 has no link"),
        ("from,to,rate,latency\nnpu0,switch1,1GB/s,1ns\n", Code::BadFabric, 0, "", "switch0 has no link"),
        ("from,to,rate,latency\nswitch0,switch1,1GB/s,1ns\n", Code::BadFabric, 0, "", "has no NPU"),
        ("from,to,rate,latency\n", Code::BadFabric, 0, "", "has no NPU"),
        ("from,to,rate,latency,duplex\nnpu0,npu1,1GB/s,1ns,both\n", Code::BadValue, 2, "duplex", "both ways"),
    ] {
        let error = csv(text).unwrap_err().0.remove(0);
        let at = error.place.as_ref().map(|place| place.line);
        assert_eq!((error.code, at), (code, Some(line)), "{text}: {error}");
        assert_eq!(error.key.as_deref().unwrap_or_default(), key, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
    let unknown = csv("from,to,rat,latency\n").unwrap_err().0.remove(0);
    assert_eq!((unknown.code, unknown.nearest.as_deref()), (Code::UnknownKey, Some("rate")));
}

#[test]
fn yaml_errors_name_line_and_key() {
    let error =
        yaml("links:\n  - { from: npu0, to: npu1, rate: 5, latency: 1ns }\n").unwrap_err().0.remove(0);
    let place = error.place.clone().unwrap();
    assert_eq!(
        (error.code, place.line, place.column, error.key.as_deref()),
        (Code::BadUnit, 2, 35, Some("rate"))
    );
    for text in ["", "links", "links:\n  - { from: npu0 }", "links: [\n", "links:\n  - { frm: npu0 }"] {
        let error = yaml(text).unwrap_err().0.remove(0);
        assert_eq!(error.code, Code::BadSyntax, "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*|[ \n,a-z0-9:{}\"-]*") {
        let _ = (csv(&text), yaml(&text));
    }

    #[test]
    fn no_change_of_a_good_file_panics(at in 0usize..200, put in "\\PC{0,6}", take in 0usize..9) {
        let start = at % GOOD.len();
        let _ = csv(&format!("{}{put}{}", &GOOD[..start], &GOOD[(start + take).min(GOOD.len())..]));
    }
}
