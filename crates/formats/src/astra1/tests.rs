//! Tests of the grammar.

use super::*;
use crate::astra2::Source;
use proptest::prelude::*;
use syncline_diagnostics::{Code, Diagnostic};

fn parse(text: &str) -> syncline_diagnostics::Result<TextWorkload> {
    TextWorkload::parse(Source::new("w.txt", text))
}

fn refused(text: &str) -> Diagnostic {
    let mut errors = parse(text).unwrap_err().0;
    assert!(errors.iter().all(|error| error.code == Code::BadAstraText));
    errors.remove(0)
}

const LAYER: &str = "conv1 -1 5 NONE 0 6 ALLTOALL 8 7 ALLREDUCE 1048576 9";

#[test]
fn every_header_is_read() {
    let layer = |more: &str| format!("{LAYER}{more}\r\n");
    for (head, expected) in [
        ("DATA", Header::default()),
        ("MODEL", Header::default()),
        ("MICRO", Header::default()),
        ("HYBRID_DATA_MODEL\t\t", Header::default()),
        ("HYBRID_MODEL_DATA", Header::default()),
        ("DISTRIBUTED_INFERENCE", Header::default()),
        ("HYBRID_DLRM\t0", Header { last_bottom: Some(0), ..Header::default() }),
        ("HYBRID_DLRM_ENHANCED 1", Header { last_bottom: Some(1), ..Header::default() }),
        ("HYBRID_TRANSFORMER", Header::default()),
        (
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 4",
            Header { model_group: Some(4), ..Header::default() },
        ),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 2 0 1 checkpoint_initiates: 1 1",
            Header {
                model_group: Some(4),
                last_bottom: None,
                checkpoints: vec![0, 1],
                checkpoint_initiates: vec![1],
            },
        ),
    ] {
        let read = parse(&format!("{head}\t\r\n2\t\t\r\n{}{}", layer("\t "), layer(""))).unwrap();
        assert_eq!((read.header, read.layers.len()), (expected, 2), "{head}");
    }
    let own = parse(&format!("HYBRID_CUSTOMIZED 2 {} {}", layer(" MODEL"), layer(" DATA"))).unwrap();
    let policies: Vec<_> = own.layers.iter().map(|layer| layer.policy).collect();
    assert_eq!(policies, [Some(Policy::Model), Some(Policy::Data)]);
}

#[test]
fn a_layer_has_all_its_fields() {
    let read = parse(&format!("DATA\n1\n{LAYER}")).unwrap();
    let expected = Layer {
        name: "conv1".to_owned(),
        forward: Pass { cycles: 5, exchange: None },
        input_grad: Pass { cycles: 6, exchange: Some((Collective::AllToAll, 8)) },
        weight_grad: Pass { cycles: 7, exchange: Some((Collective::AllReduce, 1_048_576)) },
        update_cycles: 9,
        policy: None,
        line: 3,
    };
    assert_eq!(read.layers, [expected]);
}

#[test]
fn errors_have_place_and_suggestion() {
    let line = |error: &Diagnostic| error.place.as_ref().map(|place| (place.line, place.column));
    for (text, message, at, nearest) in [
        ("", "the file is empty", (1, 0), None),
        (" \n\t\n", "the file is empty", (3, 0), None),
        ("DTAA\n1\n", "unknown policy", (1, 1), Some("DATA")),
        (LAYER, "the file begins with a layer: its two header lines are missing", (1, 1), None),
        ("DATA\n0", "a workload needs at least one layer", (2, 1), None),
        ("DATA\nx", "a whole number is expected here", (2, 1), None),
        ("DATA\n-1", "the number is negative", (2, 1), None),
        ("DATA\n99999999999", "the number is too large", (2, 1), None),
        ("DATA\n1\n", "the file has fewer layers than it says", (3, 0), None),
        ("DATA\n1\nconv1 -1 5 NONE", "the file ends too early", (3, 0), None),
        ("DATA\n1\nconv1 -1 5 ALLREDUC 8 ", "unknown collective", (3, 12), Some("ALLREDUCE")),
        ("DATA\n1\nconv1 -1 5 0 NONE", "a collective is expected here", (3, 12), None),
        ("DATA\n1\nconv1 5 NONE 0", "a whole number is expected here", (3, 9), None),
        ("DATA\n1\nconv1 NONE 0", "a layer's second field is a number", (3, 7), None),
        ("DATA\n1\nconv1 -1 -5 NONE 0", "the number is negative", (3, 10), None),
        ("DATA\n1\nconv1 -1 99999999999999999999", "the number is too large", (3, 10), None),
        ("HYBRID_DLRM 5 1", "there is no layer with this index", (1, 13), None),
        ("HYBRID_TRANSFORMER group: 0 1", "a group has at least 1 NPU", (1, 27), None),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD 4 1", "a word is expected here, then a number", (1, 33), None),
    ] {
        let error = refused(text);
        assert_eq!((error.message.as_str(), error.nearest.as_deref()), (message, nearest), "{text}");
        let text_line = line(&error).unwrap();
        assert_eq!(text_line, at, "{text}: {error}");
    }
    let own = refused(&format!("HYBRID_CUSTOMIZED\n1\n{LAYER} HYBRID_MODEL"));
    assert_eq!(
        (own.message.as_str(), own.key.as_deref()),
        ("unknown policy", Some("layer 0 `conv1`, policy"))
    );
}

#[test]
fn a_wrong_number_of_layers_is_reported() {
    let more = refused(&format!("DATA\n1\n{LAYER}\n{LAYER}\n{LAYER}"));
    assert_eq!(more.help.as_deref(), Some("write 3 as the number of layers"));
    assert_eq!(more.place.unwrap().line, 4);
    let fewer = refused(&format!("DATA\n3\n{LAYER}\n{LAYER}"));
    assert_eq!(fewer.found.as_deref(), Some("2 layers"));
    let odd = refused(&format!("DATA\n1\n{LAYER} 5"));
    assert_eq!(odd.notes, ["1 fields are left over; a layer has 12"]);
}

#[test]
fn a_workload_of_simai_is_recognised() {
    let header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 8 ga: 1 all_gpus: 16 \
                  checkpoints: 0 checkpoint_initiates: 0";
    let layer = "grad_norm -1 1 NONE 0 1 NONE 0 1 ALLREDUCE_DP_EP 13421772800 100";
    let error = refused(&format!("{header}\n1\n{layer}\n"));
    assert!(error.message.contains("a workload of SimAI, as AICB writes it"), "{error}");
    assert_eq!(error.place.as_ref().map(|place| (place.line, place.column)), Some((1, 61)));
    // Without the extra degrees the header is that of ASTRA-sim 1, and a layer may have any name.
    let own =
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 checkpoints: 0 checkpoint_initiates: 0";
    assert!(parse(&format!("{own}\n1\n{}\n", LAYER.replace("conv1", "ep:"))).is_ok());
}

#[test]
fn several_errors_are_reported_together() {
    let errors =
        parse(&format!("DATA\n2\n{}\n{}", LAYER.replace("NONE", "NOEN"), LAYER.replace("ALLTOALL", "A2A")));
    let errors = errors.unwrap_err();
    assert_eq!(errors.0.len(), 2, "{errors}");
    assert_eq!(errors.0[0].nearest.as_deref(), Some("NONE"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*|[ \t\nA-Z0-9_:-]*") {
        let _ = parse(&text);
    }

    #[test]
    fn no_change_of_a_good_file_panics(cut in 0usize..400, put in "\\PC{0,6}", take in 0usize..9) {
        let good = format!("HYBRID_TRANSFORMER model_parallel_NPU_group: 4\n3\n{LAYER}\n{LAYER}\n{LAYER}\n");
        let start = (cut % good.len()).min(good.len());
        let end = (start + take).min(good.len());
        let _ = parse(&format!("{}{put}{}", &good[..start], &good[end..]));
    }
}
