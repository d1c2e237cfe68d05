//! A small language model with random weights, in GGUF, the format of models of ggml.
//!
//! The format: `docs/gguf.md` of ggml (version 3). The names of values and tensors are those of llama.cpp's architecture `llama`.
//! The model has no vocabulary: its tokens are numbers, so a benchmark can make them, and no text comes out of it.

use std::io::{self, Write};

/// Bytes that each tensor's data begins at a multiple of.
const ALIGNMENT: u64 = 32;
/// Types of values.
const UINT32: u32 = 4;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
/// Types of tensors.
const F32: u32 = 0;
const Q8_0: u32 = 8;
/// Weights of one block of `Q8_0`, which has a scale of 16 bits and a byte for each weight.
const BLOCK: u64 = 32;

/// Sizes of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Model {
    /// Number of tokens.
    pub vocabulary: u32,
    /// Numbers that stand for a token.
    pub width: u32,
    /// Width of the feed-forward network.
    pub hidden: u32,
    /// Number of layers.
    pub layers: u32,
    /// Heads of attention.
    pub heads: u32,
}

/// The model of the list: 9.8 million weights.
pub(super) const SMALL: Model = Model { vocabulary: 4096, width: 256, hidden: 768, layers: 9, heads: 4 };

struct Tensor {
    name: String,
    /// Rows have this many weights; the first dimension of GGUF.
    width: u64,
    /// Number of rows; `None` for a vector, which is of singles.
    rows: Option<u64>,
}

impl Tensor {
    fn bytes(&self) -> u64 {
        match self.rows {
            Some(rows) => rows * self.width / BLOCK * (2 + BLOCK),
            None => self.width * 4,
        }
    }
}

impl Model {
    /// Number of weights.
    #[cfg(test)]
    fn weights(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.width * tensor.rows.unwrap_or(1)).sum()
    }

    fn tensors(&self) -> Vec<Tensor> {
        let (width, hidden, tokens) =
            (u64::from(self.width), u64::from(self.hidden), u64::from(self.vocabulary));
        let matrix =
            |name: String, width, rows| Tensor { name: format!("{name}.weight"), width, rows: Some(rows) };
        let vector = |name: String| Tensor { name: format!("{name}.weight"), width, rows: None };
        let mut tensors = vec![matrix("token_embd".into(), width, tokens)];
        for layer in 0..self.layers {
            let of = |name: &str| format!("blk.{layer}.{name}");
            tensors.push(vector(of("attn_norm")));
            for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
                tensors.push(matrix(of(name), width, width));
            }
            tensors.push(vector(of("ffn_norm")));
            for name in ["ffn_gate", "ffn_up"] {
                tensors.push(matrix(of(name), width, hidden));
            }
            tensors.push(matrix(of("ffn_down"), hidden, width));
        }
        tensors.push(vector("output_norm".into()));
        tensors.push(matrix("output".into(), width, tokens));
        tensors
    }

    /// Writes the model; the same bytes each time.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub(super) fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = Counted { out, at: 0 };
        let tensors = self.tensors();
        let numbers = [
            ("llama.vocab_size", self.vocabulary),
            ("llama.context_length", 2048),
            ("llama.embedding_length", self.width),
            ("llama.feed_forward_length", self.hidden),
            ("llama.block_count", self.layers),
            ("llama.attention.head_count", self.heads),
            ("llama.rope.dimension_count", self.width / self.heads),
            ("general.alignment", ALIGNMENT as u32),
        ];
        out.write_all(b"GGUF")?;
        out.u32(3)?;
        out.u64(tensors.len() as u64)?;
        out.u64(numbers.len() as u64 + 3)?;
        for (key, text) in [("general.architecture", "llama"), ("tokenizer.ggml.model", "no_vocab")] {
            out.string(key)?;
            out.u32(STRING)?;
            out.string(text)?;
        }
        for (key, number) in numbers {
            out.string(key)?;
            out.u32(UINT32)?;
            out.u32(number)?;
        }
        out.string("llama.attention.layer_norm_rms_epsilon")?;
        out.u32(FLOAT32)?;
        out.u32(1e-5_f32.to_bits())?;
        let mut offset = 0_u64;
        for tensor in &tensors {
            out.string(&tensor.name)?;
            out.u32(if tensor.rows.is_some() { 2 } else { 1 })?;
            out.u64(tensor.width)?;
            if let Some(rows) = tensor.rows {
                out.u64(rows)?;
            }
            out.u32(if tensor.rows.is_some() { Q8_0 } else { F32 })?;
            out.u64(offset)?;
            offset = (offset + tensor.bytes()).next_multiple_of(ALIGNMENT);
        }
        let mut random = Random(1);
        for tensor in &tensors {
            out.align()?;
            match tensor.rows {
                Some(rows) => out.blocks(rows * tensor.width / BLOCK, &mut random)?,
                None => (0..tensor.width).try_for_each(|_| out.u32(1_f32.to_bits()))?,
            }
        }
        out.align()
    }
}

/// A writer that counts its bytes.
struct Counted<W> {
    out: W,
    at: u64,
}

impl<W: Write> Counted<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn u32(&mut self, value: u32) -> io::Result<()> {
        self.write_all(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> io::Result<()> {
        self.write_all(&value.to_le_bytes())
    }

    fn string(&mut self, text: &str) -> io::Result<()> {
        self.u64(text.len() as u64)?;
        self.write_all(text.as_bytes())
    }

    fn align(&mut self) -> io::Result<()> {
        let more = self.at.next_multiple_of(ALIGNMENT) - self.at;
        self.write_all(&[0; ALIGNMENT as usize][..more as usize])
    }

    /// Blocks of weights between -1/16 and 1/16.
    fn blocks(&mut self, count: u64, random: &mut Random) -> io::Result<()> {
        let scale = half::f16::from_f32(1.0 / 2048.0).to_le_bytes();
        for _ in 0..count {
            let mut block = [0; 2 + BLOCK as usize];
            block[..2].copy_from_slice(&scale);
            for eight in block[2..].chunks_exact_mut(8) {
                eight.copy_from_slice(&random.next().to_le_bytes());
            }
            self.write_all(&block)?;
        }
        Ok(())
    }
}

/// `SplitMix64`: numbers that need not be good, but the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_tensors_where_its_list_says() {
        let model = Model { vocabulary: 64, width: 32, hidden: 64, layers: 2, heads: 2 };
        let mut bytes = Vec::new();
        model.write(&mut bytes).unwrap();
        assert_eq!(&bytes[..8], b"GGUF\x03\0\0\0");
        let data: u64 = model.tensors().iter().map(|tensor| tensor.bytes().next_multiple_of(ALIGNMENT)).sum();
        let begin = bytes.len() as u64 - data;
        assert_eq!(begin % ALIGNMENT, 0);
        // The norm of the first layer comes after the embeddings: all ones.
        let norm = (begin + model.tensors()[0].bytes().next_multiple_of(ALIGNMENT)) as usize;
        assert_eq!(bytes[norm..norm + 4], 1_f32.to_le_bytes());
        assert_eq!(bytes[norm + 31 * 4..norm + 32 * 4], 1_f32.to_le_bytes());
        assert_ne!(bytes[norm + 32 * 4..norm + 33 * 4], 1_f32.to_le_bytes());
        let mut again = Vec::new();
        model.write(&mut again).unwrap();
        assert_eq!(bytes, again);
    }

    #[test]
    fn the_small_model_has_ten_million_weights() {
        assert_eq!(SMALL.weights() / 100_000, 97);
    }
}
