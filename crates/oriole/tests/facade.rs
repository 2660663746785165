//! The library as a program uses it: errors, progress, cancellation, and equal results on any threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use oriole::{CancelToken, Compiler, Cubin, ErrorKind, Listing, Severity};

/// Returns a module with this number of kernels, each different from the others and large enough to justify threads.
fn module(kernels: usize) -> String {
    let mut text = ".version 8.0\n.target sm_80\n.address_size 64\n".to_owned();
    for number in 0..kernels {
        let steps: String = (0..60).map(|step| format!("mad.lo.u32 %x, %x, %i, {};\n", number * 100 + step)).collect();
        text += &format!(
            ".visible .entry kernel_{number}(.param .u64 out) {{\n.reg .b32 %i, %x;\n.reg .b64 %base, %address;\n\
             ld.param.u64 %base, [out];\nmov.u32 %i, %tid.x;\nmad.wide.u32 %address, %i, 4, %base;\nld.global.u32 %x, [%address];\n\
             {steps}st.global.u32 [%address], %x;\nret;\n}}\n"
        );
    }
    text
}

/// Runs tasks from the last to the first on two threads.
fn backwards(count: usize, task: &(dyn Fn(usize) + Sync)) {
    thread::scope(|scope| {
        scope.spawn(|| (0..count).rev().filter(|number| number % 2 == 0).for_each(task));
        (0..count).rev().filter(|number| number % 2 == 1).for_each(task);
    });
}

#[test]
fn any_threads_give_the_same_cubin() {
    let ptx = module(12);
    let compiler = Compiler::new().arch("sm_90a").unwrap();
    let expected = compiler.compile(&ptx).unwrap();
    assert_eq!(expected.functions().len(), 12);
    assert!(expected.functions().iter().enumerate().all(|(number, function)| function.name == format!("kernel_{number}")));
    assert_eq!(compiler.clone().sequential().compile(&ptx).unwrap(), expected);
    assert_eq!(compiler.executor(backwards).compile(&ptx).unwrap(), expected);
}

#[test]
fn progress_counts_all_functions_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    let compiler = Compiler::new().on_progress(move |progress| {
        let counts = (progress.functions_done, progress.instructions_done);
        copy.lock().unwrap().push((counts, progress.pass.is_none(), progress.functions, progress.instructions));
    });
    compiler.compile(module(5)).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted_by_key(|(counts, ..)| *counts));
    // 66 statements of each kernel are instructions: 4 before the sum, 60 of the sum, a store and a return.
    assert_eq!(seen.last(), Some(&((5, 5 * 66), true, 5, 5 * 66)));
    assert_eq!(seen.iter().filter(|(_, is_finished, ..)| *is_finished).count(), 5);
    assert!(seen.len() > 5 * 10, "passes are reported");
}

#[test]
fn a_compilation_can_be_cancelled_between_passes() {
    let token = CancelToken::new();
    let passes = Arc::new(AtomicUsize::new(0));
    let (switch, count) = (token.clone(), Arc::clone(&passes));
    let compiler = Compiler::new().sequential().cancel_token(&token).on_progress(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 6 {
            switch.cancel();
        }
    });
    let error = compiler.compile(module(5)).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Cancelled, "the compilation was cancelled"));
    assert!(error.diagnostics().is_empty());
    // The pass that cancels, and the ends of the five functions.
    assert!(passes.load(Ordering::Relaxed) <= 7 + 5, "{passes:?}");
    assert_eq!(compiler.explain(module(1)).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn errors_say_whose_problem_they_are() {
    let invalid = module(1).replace("mov.u32", "mov.u23");
    let error = Compiler::new().source_name("a.ptx").compile(&invalid).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPtx);
    let first = &error.diagnostics()[0];
    assert_eq!((first.severity, first.line, first.column), (Severity::Error, Some(8), Some(4)));
    assert!(error.render().contains("--> a.ptx:8:4"), "{}", error.render());
    assert!(error.to_string().starts_with("error[E0702] at 8:4: "), "{error}");

    let limited = Compiler::new().arch("sm_75").unwrap().compile(module(1)).unwrap_err();
    assert_eq!(limited.kind(), ErrorKind::ResourceLimit, "{limited}");
    let unknown = Compiler::new().entry("other").compile(module(2)).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidArgument);
    assert_eq!(unknown.to_string(), "there is no kernel `other`; the module has kernel_0, kernel_1");
    assert_eq!(Compiler::new().arch("sm_1").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let call = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func f();\n.visible .entry k() { call f; ret; }";
    assert_eq!(Compiler::new().compile(call).unwrap_err().kind(), ErrorKind::Unresolved);
    assert_eq!(Cubin::open(b"text", None).unwrap_err().kind(), ErrorKind::InvalidFile);
}

#[test]
fn a_cubin_from_a_file_is_the_compiled_one() {
    let compiled = Compiler::new().arch("sm_90a").unwrap().compile(module(2)).unwrap();
    let opened = Cubin::open(compiled.bytes(), None).unwrap();
    assert_eq!((opened.arch(), opened.bytes()), ("sm_90a", compiled.bytes()));
    let names = |cubin: &Cubin| {
        let mut names: Vec<(String, u32)> = cubin.functions().iter().map(|one| (one.name.clone(), one.registers)).collect();
        names.sort();
        names
    };
    assert_eq!(names(&opened), names(&compiled));
    assert!(opened.functions()[0].spills.is_none() && compiled.functions()[0].spills.is_some());
    let one = opened.listing(&Listing { function: Some("kernel_1".to_owned()), ..Listing::default() }).unwrap();
    assert!(one.contains(".text.kernel_1:") && !one.contains(".text.kernel_0:"), "{one}");
    assert_eq!(opened.disassemble().unwrap(), compiled.disassemble().unwrap());
    assert!(opened.verify().unwrap().is_empty());
    assert!(opened.explain().unwrap().to_json().unwrap().contains("\"kernel_1\""));
}

#[test]
fn the_target_of_a_family_keeps_its_name() {
    let ptx = ".version 9.0\n.target sm_100f\n.address_size 64\n.visible .entry k() { ret; }";
    let cubin = oriole::Compiler::new().compile(ptx).unwrap();
    assert_eq!(cubin.arch(), "sm_100f");
    let function = &cubin.functions()[0];
    assert!(function.instructions.is_some_and(|count| count > 0 && count <= function.code_bytes / 16));
}
