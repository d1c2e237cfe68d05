//! Rules that an object must meet to live in a kernel, checked on the disassembly. A fault found here is a line of
//! text. Found later, it is a corrupted register, a hole in a mitigation, or a module that does not load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ModuleError, run};

/// The largest stack frame of one function in bytes, as `CONFIG_FRAME_WARN` has it; a kernel stack has 16 KiB.
const MAX_FRAME: u64 = 2048;

/// Relocations the loader applies (`arch/x86/kernel/module.c`, `__write_relocate_add`).
const RELOCATIONS: [&str; 7] = [
    "R_X86_64_NONE",
    "R_X86_64_64",
    "R_X86_64_32",
    "R_X86_64_32S",
    "R_X86_64_PC32",
    "R_X86_64_PLT32",
    "R_X86_64_PC64",
];

/// Functions of the kernel that the compiler calls by itself.
const COMPILER_CALLS: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];

/// One thing an object must not contain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// An instruction that uses vector or x87 registers, which the kernel does not save.
    FloatRegister {
        /// Function it is in.
        function: String,
        /// The instruction.
        instruction: String,
    },
    /// A return that does not go through the kernel's return thunk.
    NakedReturn {
        /// Function it is in.
        function: String,
    },
    /// An indirect call or jump that does not go through a retpoline thunk.
    RawIndirectBranch {
        /// Function it is in.
        function: String,
        /// The instruction.
        instruction: String,
    },
    /// A stack frame a kernel stack has no room for.
    LargeFrame {
        /// Function that has it.
        function: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A relocation the kernel's loader does not know.
    Relocation {
        /// Type of the relocation.
        kind: String,
        /// Symbol it refers to.
        symbol: String,
    },
    /// A symbol that is neither of the shim's interface nor the compiler's.
    Undefined {
        /// The symbol.
        symbol: String,
    },
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FloatRegister { function, instruction } => {
                write!(f, "{function}: vector or x87 instruction `{instruction}`")
            }
            Self::NakedReturn { function } => write!(f, "{function}: return without the kernel's thunk"),
            Self::RawIndirectBranch { function, instruction } => {
                write!(f, "{function}: indirect branch without a retpoline, `{instruction}`")
            }
            Self::LargeFrame { function, bytes } => {
                write!(f, "{function}: stack frame of {bytes} bytes, more than {MAX_FRAME}")
            }
            Self::Relocation { kind, symbol } => {
                write!(f, "{symbol}: relocation {kind}, which the kernel's loader rejects")
            }
            Self::Undefined { symbol } => {
                write!(
                    f,
                    "{symbol}: undefined, and neither in os_interface.h nor a function of the compiler's"
                )
            }
        }
    }
}

/// An object that may not go into a kernel.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The object breaks rules.
    #[error("{} may not go into a kernel:\n{}", object.display(), list(violations))]
    Object {
        /// The object.
        object: PathBuf,
        /// Violations, sorted.
        violations: Vec<Violation>,
    },
    /// objtool or modpost had something to say.
    #[error("kbuild complains about the module:\n{}", complaints.join("\n"))]
    Kbuild {
        /// Its lines.
        complaints: Vec<String>,
    },
}

fn list(violations: &[Violation]) -> String {
    const SHOWN: usize = 20;
    let mut lines: Vec<String> = violations.iter().take(SHOWN).map(|v| format!("  {v}")).collect();
    if violations.len() > SHOWN {
        lines.push(format!("  and {} more", violations.len() - SHOWN));
    }
    lines.join("\n")
}

/// Checks the Rust half before it is linked; `interface` is the text of `os_interface.h`.
///
/// If its accesses to memory are checked (`sanitized`), it calls KASAN as well.
pub(super) fn check_core_object(object: &Path, interface: &str, sanitized: bool) -> Result<(), ModuleError> {
    let code =
        run("objdump", Command::new("objdump").args(["-d", "-C", "-w", "--no-show-raw-insn"]).arg(object))?;
    let relocations = run("objdump", Command::new("objdump").args(["-r", "-w"]).arg(object))?;
    let undefined = run("nm", Command::new("nm").arg("-u").arg(object))?;
    let mut violations = BTreeSet::new();
    check_code(&code, &mut violations);
    check_relocations(&relocations, &mut violations);
    check_undefined(&undefined, interface, &mut violations);
    violations.retain(|violation| {
        !matches!(violation, Violation::Undefined { symbol } if sanitized && symbol.starts_with("__asan_"))
    });
    verdict(object, violations)
}

/// Checks the linked module.
pub(super) fn check_module(module: &Path) -> Result<(), ModuleError> {
    let relocations = run("objdump", Command::new("objdump").args(["-r", "-w"]).arg(module))?;
    let mut violations = BTreeSet::new();
    check_relocations(&relocations, &mut violations);
    verdict(module, violations)
}

fn verdict(object: &Path, violations: BTreeSet<Violation>) -> Result<(), ModuleError> {
    if violations.is_empty() {
        return Ok(());
    }
    Err(GateError::Object { object: object.to_owned(), violations: violations.into_iter().collect() }.into())
}

/// Reads `objdump -d -C -w --no-show-raw-insn`.
fn check_code(text: &str, violations: &mut BTreeSet<Violation>) {
    let mut function = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            name.1.clone_into(&mut function);
            continue;
        }
        let Some((_, instruction)) = line.split_once(":\t") else { continue };
        let instruction = instruction.split(['#', '<']).next().unwrap_or_default();
        let instruction = instruction.split_whitespace().collect::<Vec<_>>().join(" ");
        violations.extend(check_instruction(&function, instruction));
    }
}

fn check_instruction(function: &str, instruction: String) -> Option<Violation> {
    const PREFIXES: [&str; 10] = ["cs", "ds", "es", "ss", "bnd", "notrack", "repz", "rep", "lock", "data16"];
    let function = || function.to_owned();
    let mut words = instruction.split(' ').skip_while(|word| PREFIXES.contains(word));
    let mnemonic = words.next().unwrap_or_default();
    let operands = words.next().unwrap_or_default();

    let vector = ["%xmm", "%ymm", "%zmm", "%mm", "%st"].iter().any(|register| operands.contains(register));
    if vector || mnemonic.starts_with('f') {
        return Some(Violation::FloatRegister { function: function(), instruction });
    }
    if matches!(mnemonic, "ret" | "retq" | "lret" | "lretq") {
        return Some(Violation::NakedReturn { function: function() });
    }
    if (mnemonic.starts_with("call") || mnemonic.starts_with("jmp")) && operands.starts_with('*') {
        return Some(Violation::RawIndirectBranch { function: function(), instruction });
    }
    if mnemonic.starts_with("sub")
        && let Some(bytes) = operands.strip_prefix("$0x").and_then(|rest| rest.strip_suffix(",%rsp"))
        && let Ok(bytes) = u64::from_str_radix(bytes, 16)
        && bytes > MAX_FRAME
    {
        return Some(Violation::LargeFrame { function: function(), bytes });
    }
    None
}

/// Reads `objdump -r -w`.
fn check_relocations(text: &str, violations: &mut BTreeSet<Violation>) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(_), Some(kind), Some(symbol)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if kind.starts_with("R_X86_64_") && !RELOCATIONS.contains(&kind) {
            violations.insert(Violation::Relocation { kind: kind.to_owned(), symbol: symbol.to_owned() });
        }
    }
}

/// Reads `nm -u`.
fn check_undefined(text: &str, interface: &str, violations: &mut BTreeSet<Violation>) {
    let declared: BTreeSet<&str> = interface
        .match_indices("os_")
        .filter_map(|(at, _)| {
            let name = &interface[at..];
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            (name[end..].starts_with('(')).then_some(&name[..end])
        })
        .collect();
    for line in text.lines() {
        let Some(symbol) = line.trim().strip_prefix("U ").map(str::trim) else { continue };
        let thunk = symbol.starts_with("__x86_indirect_thunk_") || symbol == "__x86_return_thunk";
        if !thunk && !COMPILER_CALLS.contains(&symbol) && !declared.contains(symbol) {
            violations.insert(Violation::Undefined { symbol: symbol.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<Violation> {
        let mut violations = BTreeSet::new();
        check_code(&format!("0000000000000010 <victim>:\n  10:\t{text}\n"), &mut violations);
        violations.into_iter().collect()
    }

    #[test]
    fn kernel_code_passes() {
        for fine in [
            "endbr64",
            "mov    %rax,%rbx",
            "cs call 1234 <__x86_indirect_thunk_r11>",
            "jmp    1234 <__x86_return_thunk>",
            "sub    $0x800,%rsp",
            "rep stos %al,%es:(%rdi)",
            "int3",
        ] {
            assert_eq!(code(fine), [], "{fine}");
        }
    }

    #[test]
    fn forbidden_code_names_its_function() {
        let function = || "victim".to_owned();
        for float in ["movups %xmm0,(%rax)", "fldl (%rax)", "vpxor %ymm0,%ymm1,%ymm2", "movq %mm0,%rax"] {
            let expected = Violation::FloatRegister { function: function(), instruction: float.to_owned() };
            assert_eq!(code(float), [expected], "{float}");
        }
        for ret in ["ret", "repz ret", "retq   $0x8"] {
            assert_eq!(code(ret), [Violation::NakedReturn { function: function() }], "{ret}");
        }
        for branch in ["call *%rax", "jmp *0x8(%rax)", "notrack jmp *%rax"] {
            let expected =
                Violation::RawIndirectBranch { function: function(), instruction: branch.to_owned() };
            assert_eq!(code(branch), [expected], "{branch}");
        }
        assert_eq!(
            code("sub    $0x1000,%rsp"),
            [Violation::LargeFrame { function: function(), bytes: 4096 }]
        );
    }

    #[test]
    fn relocations_through_a_got_name_the_symbol() {
        let text = "RELOCATION RECORDS FOR [.text]:\nOFFSET TYPE VALUE\n\
                    0000000000000005 R_X86_64_PLT32 os_alloc-0x4\n\
                    0000000000000015 R_X86_64_GOTPCREL memcpy-0x4\n";
        let mut violations = BTreeSet::new();
        check_relocations(text, &mut violations);
        let expected =
            Violation::Relocation { kind: "R_X86_64_GOTPCREL".into(), symbol: "memcpy-0x4".into() };
        assert_eq!(violations.into_iter().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn undefined_symbols_outside_of_the_interface_are_named() {
        let interface = "/* os_fake is not declared */\nvoid *os_alloc(size_t size);\nint os_log(void);\n";
        let text = "                 U os_alloc\n                 U os_fake\n                 U memcpy\n\
                    \x20                U printk\n                 U __x86_return_thunk\n                 U __udivti3\n";
        let mut violations = BTreeSet::new();
        check_undefined(text, interface, &mut violations);
        let symbols: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(symbols.len(), 3, "{symbols:?}");
        for (line, symbol) in symbols.iter().zip(["__udivti3", "os_fake", "printk"]) {
            assert!(line.starts_with(symbol), "{line}");
        }
    }
}
