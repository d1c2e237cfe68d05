//! The words of comments: doc lines begin with a noun or a verb, and name the part that acts.

/// Words that no paragraph of a doc comment begins with: they promise a question and give a fragment.
const FIRST: [&str; 12] =
    ["What", "Whether", "Who", "Whoever", "Whom", "Whose", "Those", "It", "Where", "How", "That", "Which"];

/// Actors that stand for the part that acts: the driver, the device's thread, the caller.
const ACTORS: [&str; 8] =
    ["nobody", "somebody", "whoever", "anybody", "someone", "anyone", "whatever", "everybody"];

/// Finds refused words in the comments of a Rust file.
pub(super) fn findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    // Rows of a paragraph after its first may begin with any word.
    let mut fresh = true;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("//") else {
            fresh = true;
            continue;
        };
        if let Some(actor) = words(comment).find(|word| ACTORS.contains(&word.to_lowercase().as_str())) {
            findings.push(format!("{path}:{}: \"{actor}\" names no part that acts", index + 1));
        }
        let Some(doc) = comment.strip_prefix(['/', '!']).filter(|doc| !doc.starts_with('/')) else {
            fresh = true;
            continue;
        };
        let doc = doc.trim();
        let item = ["- ", "* "].iter().find_map(|mark| doc.strip_prefix(mark)).or_else(|| numbered(doc));
        fresh |= item.is_some();
        let first = words(item.unwrap_or(doc)).next().unwrap_or_default();
        if fresh && FIRST.contains(&first) {
            findings.push(format!("{path}:{}: a doc line begins with \"{first}\"", index + 1));
        }
        fresh = doc.is_empty();
    }
    findings
}

/// The words of a line, without marks around them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The text of an item of a numbered list.
fn numbered(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix(". ").filter(|_| rest.len() < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_and_actors_are_found_with_their_lines() {
        let text = [
            "/// What is left.",
            "fn a() {}",
            "/// Bytes left; none of",
            "/// What follows counts.",
            "///",
            "/// Whether it ends.",
            "let a = 1;",
            "// nobody reads it",
            "//! 2. Who waits.",
            "/// - It ends.",
            "// What a plain comment says is its own.",
            "//// Who",
            "/// Somebody's.",
        ]
        .join("\n");
        let lines: Vec<String> =
            findings("a.rs", &text).iter().map(|found| found.split(':').nth(1).unwrap().to_owned()).collect();
        assert_eq!(lines, ["1", "6", "8", "9", "10", "13"]);
    }
}
