use belfry_device::profile::{
    GlobalAccess, LdsAccess, LinkBytes, Occupancy, Patterns, ProfileReport, Resources, Site,
};
use belfry_isa::exec::Class;
use belfry_isa::inst::WaveSize;
use serde_json::Value;

use super::*;

fn gpu() -> Gpu {
    let model = Model::named("gfx1100").unwrap();
    Gpu { model, shape: Shape::one(8), matrices: Matrices::Exact }
}

fn site(pc: u64, text: &str, class: Class, executions: u64) -> Site {
    let lanes = if class.has_lanes() { executions * 32 } else { 0 };
    Site {
        pc,
        size: 8,
        text: text.into(),
        class,
        executions,
        lanes,
        entered: pc == 0x1000,
        ends_block: class == Class::Control,
        global: None,
        lds: None,
    }
}

fn kernel() -> KernelProfile {
    let resources = Resources {
        wave_size: WaveSize::Wave32,
        vgprs: 24,
        shared_vgprs: 0,
        sgprs: None,
        lds: 512,
        scratch: 16,
        waves: 2,
        wgp_mode: false,
    };
    let patterns = Patterns { strided: 3, gather: 1, stride: Some(8), ..Patterns::default() };
    let global = GlobalAccess { accesses: 4, bytes: 512, lines: 8, most_lines: 3, patterns };
    let patterns = Patterns { coalesced: 4, ..Patterns::default() };
    let lds = LdsAccess { accesses: 4, bytes: 512, passes: 12, conflicts: 8, most_passes: 3, patterns };
    let mut lanes = vec![0; 65];
    (lanes[32], lanes[8]) = (6, 2);
    KernelProfile {
        name: "_Z3addPfS_".into(),
        entry: 0x1000,
        launches: 1,
        workgroups: 2,
        waves: 4,
        instructions: [(Class::Load, 4), (Class::Lds, 4), (Class::Control, 4)].into(),
        lanes,
        sites: vec![
            Site { global: Some(global), ..site(0x1000, "global_load_b32 v1, v0, s[0:1]", Class::Load, 4) },
            Site { lds: Some(lds), ..site(0x1008, "ds_store_b32 v0, v1", Class::Lds, 4) },
            site(0x1010, "s_endpgm", Class::Control, 4),
        ],
        resources: Some(resources),
        occupancy: Some(Occupancy::of(&gpu().model.generation.shader, &resources)),
        ..KernelProfile::default()
    }
}

fn rendered(kernels: Vec<KernelProfile>, format: Format) -> String {
    let report = ProfileReport { kernels, ..ProfileReport::default() };
    let of = Some((7, "./prog".to_owned()));
    render(&[Process { of, reports: vec![report] }], &[gpu()], &mut Symbols::default(), format)
}

#[test]
fn text_has_each_part() {
    let text = rendered(vec![kernel()], Format::Text);
    for part in [
        "profile of process 7, ./prog",
        "profile: add(float*, float*)",
        "1 launches, 2 workgroups, 4 waves, 12 instructions",
        "    load                       4   33.3 %",
        "    32            6   75.0 %  ####",
        "     8            2   25.0 %  ####",
        "a wave of 32 lanes: 24 VGPRs, all SGPRs, 16 bytes of scratch memory a lane",
        "a workgroup: 2 waves, 512 bytes of LDS\n",
        "occupancy: 16.0 of 16 waves per SIMD, limited by places for waves",
        "estimate on the card (gfx1100 with 8 CUs; a model, not a measurement): 2 ns, bound by Lds",
        "block +0x0: 4 executions, 100.0 % of the instructions",
        "+0x10  s_endpgm",
        "strided by 8 bytes 75 %; 2.00 lines of 128 bytes an execution (at most 3), 512 bytes asked for of 1024 in lines (50 %)",
        "LDS, coalesced; 3.00 passes an execution (at most 3), 2.00 of them by bank conflicts",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn json_has_each_part() {
    let json: Value = serde_json::from_str(&rendered(vec![kernel()], Format::Json)).unwrap();
    assert_eq!((&json["chip"], &json["cus"]), (&"gfx1100".into(), &8.into()));
    let kernel = &json["processes"][0]["kernels"][0];
    assert_eq!(kernel["demangled"], "add(float*, float*)");
    assert_eq!(kernel["instructions_by_class"]["load"], 4);
    assert_eq!(kernel["active_lanes"], serde_json::json!({"8": 2, "32": 6}));
    assert_eq!(kernel["blocks"][0]["code"][2]["text"], "s_endpgm");
    assert_eq!(kernel["memory"][0]["bytes_of_lines"], 1024);
    assert_eq!(kernel["memory"][0]["patterns"]["stride"], 8);
    assert_eq!(kernel["lds"][0]["conflicts"], 8);
    assert_eq!(kernel["occupancy"]["limit"], "wave_slots");
    assert_eq!(kernel["estimate_on_card"]["bound"], "lds");
}

#[test]
fn sums_of_matrices_are_named_where_there_are_some() {
    assert!(!rendered(vec![kernel()], Format::Text).contains("matrices"));
    let mut kernel = kernel();
    kernel.instructions.insert(Class::Matrix, 4);
    assert!(rendered(vec![kernel.clone()], Format::Text).contains("sums of matrices: exact\n"));
    let json: Value = serde_json::from_str(&rendered(vec![kernel], Format::Json)).unwrap();
    assert_eq!(json["matrices"], "exact");
}

#[test]
fn nothing_is_told_as_such() {
    assert!(rendered(Vec::new(), Format::Text).contains("profile: no kernel ran"));
    let none = render(&[], &[gpu()], &mut Symbols::default(), Format::Text);
    assert_eq!(none, "profile: no process used the GPU\n");
    let mut unnamed = kernel();
    unnamed.name.clear();
    assert!(rendered(vec![unnamed], Format::Text).contains("profile: kernel 0x1000"));
}

#[test]
fn links_between_several_gpus_are_a_matrix() {
    let (to_one, to_none) =
        (LinkBytes { peer: 1, stored: 100, loaded: 20, ..LinkBytes::default() }, Vec::new());
    let reports = [(vec![kernel()], vec![to_one]), (Vec::new(), to_none)];
    let reports =
        reports.map(|(kernels, links)| ProfileReport { kernels, links, ..ProfileReport::default() });
    let other = Gpu { model: Model::named("gfx942").unwrap(), ..gpu() };
    let shown = |format| {
        let process = Process { of: None, reports: reports.to_vec() };
        render(&[process], &[gpu(), other], &mut Symbols::default(), format)
    };
    let text = shown(Format::Text);
    for part in [
        "profile of GPU 0, gfx1100 with 8 CUs\n\nprofile: add",
        "profile of GPU 1, gfx942 with 8 CUs\nprofile: no kernel ran\n",
        "profile of links\nbytes over links, from row to column",
        "  GPU 0, memory of GPU 1: 20 loaded, 100 stored\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let row = |gpu: &str| {
        let line = text.lines().find(|line| line.starts_with(gpu) && !line.contains("memory"));
        line.unwrap().split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((row("GPU 0"), row("GPU 1")), (vec!["-".into(), "100".into()], vec!["20".into(), "-".into()]));
    let json: Value = serde_json::from_str(&shown(Format::Json)).unwrap();
    assert_eq!(json["gpus"][1]["chip"], "gfx942");
    let process = &json["processes"][0];
    assert_eq!((&process["kernels"][0]["gpu"], process["kernels"].as_array().unwrap().len()), (&0.into(), 1));
    let link = &process["links"][0];
    assert_eq!((&link["gpu"], &link["peer"]), (&0.into(), &1.into()));
    assert_eq!((&link["bytes_to_peer"], &link["bytes_from_peer"]), (&100.into(), &20.into()));
}
