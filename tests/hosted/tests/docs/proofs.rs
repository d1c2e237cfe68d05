//! Tests that show that a command of KFD does as its row says, by queue type if it is about queues.

use std::path::Path;

/// Paths of tests, by the first part of their names.
const PLACES: [(&str, &str); 17] = [
    ("path", "guest-driver/hosted/tests/path.rs"),
    ("pm4", "guest-driver/hosted/tests/pm4.rs"),
    ("sdma", "guest-driver/hosted/tests/sdma.rs"),
    ("recovery", "guest-driver/hosted/tests/recovery.rs"),
    ("bad_ioctls", "guest-driver/hosted/tests/bad_ioctls.rs"),
    ("criu", "guest-driver/hosted/tests/criu.rs"),
    ("smi", "guest-driver/hosted/tests/smi.rs"),
    ("svm", "guest-driver/hosted/tests/svm.rs"),
    ("dmabuf", "guest-driver/hosted/tests/dmabuf/main.rs"),
    ("traps", "tests/hosted/tests/traps.rs"),
    ("hosted", "tests/hosted/tests/hosted.rs"),
    ("debugger", "tests/hosted/tests/debugger/main.rs"),
    ("exec_debug", "tests/tests/exec_debug.rs"),
    ("thunk::memory", "tests/programs/thunk/memory.c"),
    ("thunk::queues", "tests/programs/thunk/queues.c"),
    ("thunk::events", "tests/programs/thunk/events.c"),
    ("thunk::others", "tests/programs/thunk"),
];

/// A command, and its tests with the queue type that each is about.
struct Proof {
    command: &'static str,
    tests: &'static [(&'static str, &'static str)],
}

const PROOFS: &[Proof] = &[
    Proof {
        command: "GET_VERSION",
        tests: &[("", "path::version_apertures_and_clocks_are_those_of_the_real_interface")],
    },
    Proof {
        command: "CREATE_QUEUE",
        tests: &[
            ("AQL", "thunk::queues::aql_queue_dispatches_a_kernel"),
            ("PM4", "thunk::queues::pm4_queue_dispatches_a_kernel"),
            ("SDMA", "thunk::queues::sdma_queue_copies_both_ways"),
            ("SDMA_BY_ENG_ID", "thunk::others::sdma_queue_of_a_named_engine_copies"),
            ("", "bad_ioctls::queues_are_refused_by_the_rules"),
        ],
    },
    Proof {
        command: "DESTROY_QUEUE",
        tests: &[
            ("AQL", "path::a_killed_process_with_running_queues_leaves_nothing_behind"),
            ("PM4", "thunk::queues::queue_with_a_waiting_kernel_is_destroyed"),
            ("SDMA", "thunk::queues::queues_come_and_go"),
        ],
    },
    Proof { command: "SET_MEMORY_POLICY", tests: &[("", "bad_ioctls::the_rest_is_refused_by_the_rules")] },
    Proof { command: "GET_CLOCK_COUNTERS", tests: &[("", "thunk::others::clocks_go_forward")] },
    Proof {
        command: "GET_PROCESS_APERTURES",
        tests: &[("", "path::version_apertures_and_clocks_are_those_of_the_real_interface")],
    },
    Proof {
        command: "UPDATE_QUEUE",
        tests: &[
            ("AQL", "path::an_inactive_queue_does_not_run_and_an_active_one_catches_up"),
            ("PM4", "thunk::queues::waiting_kernel_is_stopped_and_goes_on"),
            ("SDMA", "thunk::queues::sdma_queue_is_stopped_and_goes_on"),
            ("", "thunk::queues::refused_changes_of_queues"),
        ],
    },
    Proof {
        command: "CREATE_EVENT",
        tests: &[("", "thunk::events::events_have_numbers_and_slots_of_their_own")],
    },
    Proof { command: "DESTROY_EVENT", tests: &[("", "thunk::events::events_have_a_limit")] },
    Proof {
        command: "SET_EVENT",
        tests: &[("", "thunk::events::wait_ends_when_another_thread_sets_the_event")],
    },
    Proof { command: "RESET_EVENT", tests: &[("", "thunk::events::event_of_manual_reset_stays")] },
    Proof {
        command: "WAIT_EVENTS",
        tests: &[
            ("AQL", "thunk::queues::aql_signal_raises_its_event"),
            ("PM4", "thunk::queues::pm4_queue_signals_an_event"),
            ("SDMA", "thunk::queues::sdma_queue_signals_an_event"),
            ("", "path::events_age_and_wait_for_all_or_any"),
        ],
    },
    Proof {
        command: "SET_SCRATCH_BACKING_VA",
        tests: &[("", "bad_ioctls::the_rest_is_refused_by_the_rules")],
    },
    Proof { command: "GET_TILE_CONFIG", tests: &[("", "thunk::others::tiles_of_the_memory_are_told")] },
    Proof {
        command: "SET_TRAP_HANDLER",
        tests: &[("", "traps::trap_instruction_enters_the_handler_and_comes_back")],
    },
    Proof {
        command: "GET_PROCESS_APERTURES_NEW",
        tests: &[("", "path::version_apertures_and_clocks_are_those_of_the_real_interface")],
    },
    Proof {
        command: "ACQUIRE_VM",
        tests: &[("", "bad_ioctls::a_process_without_a_vm_can_ask_but_not_have")],
    },
    Proof {
        command: "ALLOC_MEMORY_OF_GPU",
        tests: &[
            ("", "path::memory_is_the_same_for_both_sides_of_every_kind"),
            ("", "bad_ioctls::allocations_are_refused_by_the_rules"),
        ],
    },
    Proof { command: "FREE_MEMORY_OF_GPU", tests: &[("", "thunk::memory::allocations_come_and_go")] },
    Proof {
        command: "MAP_MEMORY_TO_GPU",
        tests: &[("", "thunk::memory::memory_is_mapped_again_and_keeps_what_it_has")],
    },
    Proof {
        command: "UNMAP_MEMORY_FROM_GPU",
        tests: &[("", "thunk::events::fault_of_memory_that_was_unmapped")],
    },
    Proof {
        command: "SET_CU_MASK",
        tests: &[
            ("AQL", "traps::waves_stay_on_the_compute_units_of_their_queue"),
            ("PM4", "thunk::queues::queue_has_a_mask_of_compute_units"),
        ],
    },
    Proof {
        command: "GET_QUEUE_WAVE_STATE",
        tests: &[
            ("PM4", "thunk::queues::queue_tells_where_its_waves_are_saved"),
            ("SDMA, which has no waves", "sdma::sdma_queues_are_refused_by_the_rules"),
        ],
    },
    Proof {
        command: "GET_DMABUF_INFO",
        tests: &[("", "dmabuf::users_of_one_gpu_share_pages_until_the_last_of_them_is_done")],
    },
    Proof { command: "IMPORT_DMABUF", tests: &[("", "thunk::others::dma_buf_goes_to_another_process")] },
    Proof {
        command: "ALLOC_QUEUE_GWS",
        tests: &[("AQL", "hosted::grid_sync_succeeds_beside_kernels_that_do_not_end")],
    },
    Proof { command: "SMI_EVENTS", tests: &[("", "smi::processes_are_seen_to_begin_and_to_end")] },
    Proof {
        command: "SVM",
        tests: &[
            ("", "svm::attributes_come_back_as_they_were_set"),
            ("", "svm::ranges_and_structures_are_refused_by_the_rules"),
        ],
    },
    Proof {
        command: "SET_XNACK_MODE",
        tests: &[("", "thunk::others::retries_of_faults_are_off_and_on_where_the_chip_has_them")],
    },
    Proof {
        command: "CRIU_OP",
        tests: &[("", "criu::rights_come_before_arguments_and_arguments_before_the_refusal")],
    },
    Proof {
        command: "AVAILABLE_MEMORY",
        tests: &[("", "thunk::memory::available_memory_follows_allocations")],
    },
    Proof { command: "EXPORT_DMABUF", tests: &[("", "thunk::others::dma_buf_is_exported_and_imported")] },
    Proof {
        command: "RUNTIME_ENABLE",
        tests: &[("", "debugger::runtime_waits_for_the_debugger_and_the_debugger_hears_of_it")],
    },
    Proof {
        command: "DBG_TRAP",
        tests: &[
            ("AQL", "debugger::wave_that_traps_is_looked_at_changed_and_goes_on"),
            ("", "debugger::queues_that_come_and_go_are_told_of"),
            ("under `exec`", "exec_debug::running_program_is_stopped_looked_at_and_let_go"),
        ],
    },
];

/// The tests of a command as its row has them; checks that each of them is there.
pub(crate) fn of(command: &str) -> String {
    if command.ends_with("_DEPRECATED") {
        return "`bad_ioctls::what_is_not_built_is_refused_for_every_argument`".to_owned();
    }
    let proof = PROOFS.iter().find(|proof| proof.command == command);
    let tests = proof.unwrap_or_else(|| panic!("{command} has no test")).tests;
    let texts = tests.iter().map(|&(queues, test)| {
        assert!(is_there(test), "{command}: there is no test {test}");
        let shown = test.replace("::memory::", "::").replace("::queues::", "::");
        let shown = shown.replace("::events::", "::").replace("::others::", "::");
        if queues.is_empty() { format!("`{shown}`") } else { format!("{queues}: `{shown}`") }
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns true if there is a test of that name in the file that the first part of the name stands for.
fn is_there(test: &str) -> bool {
    let Some((place, name)) = test.rsplit_once("::") else { return false };
    let Some((_, path)) = PLACES.iter().find(|&&(of, _)| of == place) else { return false };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let files = if path.is_dir() {
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![path]
    };
    let heads = [format!("fn {name}("), format!("CASE({name})")];
    files.iter().any(|file| {
        let text = std::fs::read_to_string(file).unwrap();
        heads.iter().any(|head| text.contains(head))
    })
}
