//! Compiled kernels, run on every backend the host has and compared with the same computation in Rust.

#[macro_use]
mod common;

use belfry_isa::exec::Profile;
use belfry_isa::inst::{Arch, Op};
use belfry_isa::lanes::Backend;
use common::{Args, Gpu, Objects, Random};

/// Architectures for which the kernel `wm` has matrix instructions in the shape that is tested here.
const WITH_WMMA: [Arch; 3] = [Arch::Gfx1100, Arch::Gfx1151, Arch::Gfx1201];

fn on_every_backend(test: impl Fn(Gpu)) {
    for arch in Arch::ALL {
        on_every_backend_of(arch, &test);
    }
}

fn on_every_backend_of(arch: Arch, test: impl Fn(Gpu)) {
    for backend in Backend::all() {
        println!("{arch:?}, backend {:?}", backend.kind());
        test(Gpu::of(arch, backend, 16 << 20));
    }
}

fn grid(x: u32) -> [u32; 3] {
    [x, 1, 1]
}

#[test]
fn vecadd_with_a_partial_last_group() {
    on_every_backend(|mut gpu| {
        let n = 1000_u32;
        let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let b: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
        let kernel = gpu.load(fixture!("vecadd"), "vecadd");
        let (a_va, b_va, c_va) =
            (gpu.buffer(&a), gpu.buffer(&b), gpu.buffer(&vec![-7.0_f32; n as usize + 8]));
        let args = Args::default().push(a_va).push(b_va).push(c_va).push(n).hidden(grid(8), [128, 1, 1]);
        let executed = gpu.launch(&kernel, grid(8), [128, 1, 1], &args).unwrap();
        assert!(executed >= 32 * 10, "{executed}");
        let c: Vec<f32> = gpu.fetch(c_va, n as usize + 8);
        for i in 0..n as usize {
            assert_eq!(c[i], a[i] + b[i], "element {i}");
        }
        assert_eq!(c[n as usize..], [-7.0; 8], "nothing is written behind the end");
    });
}

#[test]
fn bench_vadd_and_vadd4() {
    on_every_backend(|mut gpu| {
        let n = 4096;
        let mut random = Random(1);
        let a: Vec<f32> = (0..n).map(|_| random.small()).collect();
        let b: Vec<f32> = (0..n).map(|_| random.small()).collect();
        let (a_va, b_va) = (gpu.buffer(&a), gpu.buffer(&b));
        for (name, per_group) in [("vadd", 256), ("vadd4", 1024)] {
            let kernel = gpu.load(fixture!("bench"), name);
            let c_va = gpu.buffer(&vec![0.0_f32; n]);
            let args = Args::default().push(c_va).push(a_va).push(b_va);
            gpu.launch(&kernel, grid(n as u32 / per_group), [256, 1, 1], &args).unwrap();
            let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_eq!(gpu.fetch::<f32>(c_va, n), expected, "{name}");
        }
    });
}

fn matrices(n: usize, seed: u64) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut random = Random(seed);
    let a: Vec<f32> = (0..n * n).map(|_| random.small()).collect();
    let b: Vec<f32> = (0..n * n).map(|_| random.small()).collect();
    let mut c = vec![0.0; n * n];
    for row in 0..n {
        for col in 0..n {
            // Fused or not makes no difference: the sums are exact.
            c[row * n + col] =
                (0..n).map(|k| f64::from(a[row * n + k]) * f64::from(b[k * n + col])).sum::<f64>() as f32;
        }
    }
    (a, b, c)
}

#[test]
fn matrix_products() {
    let n = 128_u32;
    let (a, b, expected) = matrices(n as usize, 3);
    on_every_backend(|mut gpu| {
        let (a_va, b_va) = (gpu.buffer(&a), gpu.buffer(&b));
        let count = (n * n) as usize;
        let bench: Objects<'_> = fixture!("bench");
        for (name, groups, block) in
            [("gemm_naive", [n / 32, n / 8, 1], [32, 8, 1]), ("gemm_tiled", [n / 64, n / 64, 1], [256, 1, 1])]
        {
            let kernel = gpu.load(bench, name);
            let c_va = gpu.buffer(&vec![0.0_f32; count]);
            let args = Args::default().push(c_va).push(a_va).push(b_va).push(n);
            gpu.launch(&kernel, groups, block, &args).unwrap();
            assert_eq!(gpu.fetch::<f32>(c_va, count), expected, "{name}");
        }
        // This one reads A by columns.
        let transposed: Vec<f32> =
            (0..count).map(|i| a[i % n as usize * n as usize + i / n as usize]).collect();
        let (at_va, c_va) = (gpu.buffer(&transposed), gpu.buffer(&vec![0.0_f32; count]));
        let kernel = gpu.load(fixture!("gemm"), "gemm");
        let args = Args::default().push(at_va).push(b_va).push(c_va).push(n).push(n).push(n);
        gpu.launch(&kernel, [n / 64, n / 64, 1], [64, 1, 1], &args).unwrap();
        assert_eq!(gpu.fetch::<f32>(c_va, count), expected, "gemm");
    });
}

#[test]
fn reductions() {
    on_every_backend(|mut gpu| {
        let mut random = Random(5);
        let n = 10_000_u32;
        let data: Vec<f32> = (0..n).map(|_| random.small()).collect();
        let data_va = gpu.buffer(&data);
        let expected: f64 = data.iter().map(|x| f64::from(*x)).sum();

        let kernel = gpu.load(fixture!("bench"), "reduce");
        let out = gpu.buffer(&[0.0_f32; 4]);
        let args = Args::default().push(out).push(data_va).push(n).push(4_u32);
        gpu.launch(&kernel, grid(4), [256, 1, 1], &args).unwrap();
        assert_eq!(gpu.fetch::<f32>(out, 4).iter().map(|x| f64::from(*x)).sum::<f64>(), expected);

        // DPP within rows of 16 and a permute across: lane 31 adds both rows.
        let kernel = gpu.load(fixture!("reduce"), "reduce");
        let out = gpu.buffer(&[0.0_f32; 64]);
        let args = Args::default().push(data_va).push(out).push(n);
        gpu.launch(&kernel, grid(64), [256, 1, 1], &args).unwrap();
        assert_eq!(gpu.fetch::<f32>(out, 64).iter().map(|x| f64::from(*x)).sum::<f64>(), expected);
    });
}

#[test]
fn alu_loop() {
    on_every_backend(|mut gpu| {
        let kernel = gpu.load(fixture!("bench"), "alu");
        let out = gpu.buffer(&[0.0_f32; 64]);
        let iterations = 20;
        let args = Args::default().push(out).push(iterations);
        gpu.launch(&kernel, grid(2), [32, 1, 1], &args).unwrap();
        let result = gpu.fetch::<f32>(out, 64);
        for (lane, result) in result.into_iter().enumerate() {
            let mut y: [f32; 8] = core::array::from_fn(|k| (lane % 32) as f32 + k as f32);
            for _ in 0..iterations {
                for k in 0..8 {
                    y[k] = y[k].mul_add(0.5, y[(k + 1) % 8]);
                }
            }
            let expected = y[1..].iter().fold(y[0], |sum, y| sum + y);
            assert_eq!(result, expected, "lane {lane}");
        }
    });
}

#[test]
fn histogram_by_atomics() {
    on_every_backend(|mut gpu| {
        let mut random = Random(7);
        let n = 30_000_u32;
        let data: Vec<u8> = (0..n).map(|_| (random.next() >> 40) as u8).collect();
        let mut expected = vec![0_u32; 256];
        data.iter().for_each(|&value| expected[usize::from(value)] += 1);
        let (data_va, out) = (gpu.buffer(&data), gpu.buffer(&[0_u32; 256]));
        let kernel = gpu.load(fixture!("hist"), "hist");
        let args = Args::default().push(data_va).push(out).push(n);
        gpu.launch(&kernel, grid(64), [256, 1, 1], &args).unwrap();
        assert_eq!(gpu.fetch::<u32>(out, 256), expected);
    });
}

#[test]
fn integer_mix() {
    on_every_backend(|mut gpu| {
        let (n, iterations) = (200_u32, 50_u32);
        let out = gpu.buffer(&vec![0_u32; 256]);
        let kernel = gpu.load(fixture!("intmix"), "intmix");
        let args = Args::default().push(out).push(n).push(iterations).hidden(grid(2), [128, 1, 1]);
        gpu.launch(&kernel, grid(2), [128, 1, 1], &args).unwrap();
        let result = gpu.fetch::<u32>(out, 256);
        for i in 0..256_u32 {
            let (mut x, mut y, mut z, mut acc) =
                (i.wrapping_mul(0x9E37_79B9).wrapping_add(1), i ^ 0x85eb_ca6b, i + 77, 0_u32);
            for k in 0..iterations {
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                y = y.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(5).wrapping_add(0xe654_6b64);
                z = z.wrapping_add((x & 0xffff).wrapping_mul(3).wrapping_add(k));
                acc = acc.wrapping_add(if x > y { z ^ y } else { z.wrapping_add(x) }).rotate_left(7);
                acc ^= y >> 3 & 0x1ff;
            }
            assert_eq!(result[i as usize], if i < n { acc } else { 0 }, "item {i}");
        }
    });
}

/// 64-bit integer division, doubles, halves and a divergent loop.
#[test]
fn wide_integers_doubles_halves_and_divergence() {
    on_every_backend(|mut gpu| {
        let n = 100_u32;
        let mut random = Random(11);
        let a: Vec<u64> = (0..n).map(|i| random.next() >> (i % 60)).collect();
        let d: Vec<f64> = (0..n).map(|_| f64::from(random.small()) * 1e10).collect();
        // Halves of small integers.
        let h: Vec<u16> = (0..n).map(|i| [0x3c00, 0x4000, 0x4200, 0xc400, 0x3800][i as usize % 5]).collect();
        let q: Vec<i32> = (0..n).map(|_| (random.next() >> 40) as i32 - 8_000_000).collect();
        let (a_va, d_va, h_va, q_va) = (gpu.buffer(&a), gpu.buffer(&d), gpu.buffer(&h), gpu.buffer(&q));
        let kernel = gpu.load(fixture!("sort"), "misc");
        // One wave at a time sees neighbours' old values of `a`, and `q` through `% n`: run a single group of one
        // wave per 32 items in order, as the engine does, and replay that order.
        let args =
            Args::default().push(a_va).push(d_va).push(h_va).push(q_va).push(n).hidden(grid(4), [32, 1, 1]);
        gpu.launch(&kernel, grid(4), [32, 1, 1], &args).unwrap();
        let (ra, rd, rh, rq) = (
            gpu.fetch::<u64>(a_va, n as usize),
            gpu.fetch::<f64>(d_va, n as usize),
            gpu.fetch::<u16>(h_va, n as usize),
            gpu.fetch::<i32>(q_va, n as usize),
        );
        let mut old_q = q.clone();
        for group in 0..4 {
            let before = old_q.clone();
            for i in group * 32..(group * 32 + 32).min(n as usize) {
                let (x, y) = (a[i], a[i ^ 1]);
                let expected = if x > y { x.wrapping_mul(y).wrapping_add(3) } else { x / (y | 1) };
                assert_eq!(ra[i], expected, "64-bit item {i}: {x} {y}");
                let expected = d[i].mul_add(1.5, f64::from(q[i]));
                let unfused = d[i] * 1.5 + f64::from(q[i]);
                assert!(rd[i] == expected || rd[i] == unfused, "double item {i}: {} not {expected}", rd[i]);
                let half = [3.0, 6.0, 11.0, 18.0, 2.25][i % 5];
                assert_eq!(half_to_f64(rh[i]), half, "half item {i}");
                let mut s = 0_i32;
                for k in 0..before[i] & 31 {
                    if (k as usize ^ i) & 1 != 0 {
                        s = s.wrapping_add(before[(i + k as usize) % n as usize]);
                    } else {
                        s = s.wrapping_sub(k);
                    }
                }
                old_q[i] = s;
                assert_eq!(rq[i], s, "divergent item {i}");
            }
        }
    });
}

fn half_to_f64(bits: u16) -> f64 {
    let value = f64::from(bits & 0x3ff | 0x400) * f64::from(i32::from(bits >> 10 & 31) - 25).exp2();
    if bits & 0x8000 != 0 { -value } else { value }
}

/// Distance in units in the last place.
fn ulps(a: f32, b: f32) -> u32 {
    let order = |x: f32| {
        let bits = x.to_bits().cast_signed();
        if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
    };
    order(a).abs_diff(order(b))
}

#[test]
fn transcendental_builtins_and_division() {
    on_every_backend(|mut gpu| {
        let n = 64_u32;
        let a: Vec<f32> = (0..n).map(|i| 0.05 + i as f32 * 0.37).collect();
        let o: Vec<f32> = (0..n).map(|i| 3.0 - i as f32).collect();
        let (a_va, o_va) = (gpu.buffer(&a), gpu.buffer(&o));
        let kernel = gpu.load(fixture!("trans"), "trans");
        let args = Args::default().push(o_va).push(a_va).push(n).hidden(grid(2), [32, 1, 1]);
        gpu.launch(&kernel, grid(2), [32, 1, 1], &args).unwrap();
        let result = gpu.fetch::<f32>(o_va, n as usize);
        for i in 0..n as usize {
            let x = f64::from(a[i]);
            let sum = x.exp2()
                + x.log2()
                + 1.0 / x
                + 1.0 / x.sqrt()
                + (x * std::f64::consts::TAU).sin()
                + x.sqrt()
                + x / f64::from(3.7_f32)
                + f64::from(o[i]) / x;
            let expected = sum.max(0.0) as f32;
            let close = ulps(result[i], expected) <= 16 || (result[i] - expected).abs() < 2e-5;
            assert!(close, "item {i}: x {x}: {} not {expected}", result[i]);
        }
    });
}

#[test]
fn device_library_functions() {
    on_every_backend(|mut gpu| {
        let n = 96_u32;
        let a: Vec<f32> = (0..n).map(|i| 0.01 + i as f32 * 0.11).collect();
        let d: Vec<f64> = (0..n).map(|i| f64::from(i) * 0.17 - 8.0).collect();
        let (o_va, a_va, d_va) = (gpu.buffer(&vec![0.0_f32; n as usize]), gpu.buffer(&a), gpu.buffer(&d));
        let kernel = gpu.load(fixture!("ocml"), "ocml");
        let args = Args::default().push(o_va).push(a_va).push(d_va).push(n).hidden(grid(3), [32, 1, 1]);
        gpu.launch(&kernel, grid(3), [32, 1, 1], &args).unwrap();
        let (o, rd) = (gpu.fetch::<f32>(o_va, n as usize), gpu.fetch::<f64>(d_va, n as usize));
        for i in 0..n as usize {
            let x = f64::from(a[i]);
            let expected =
                x.exp() + x.ln() + x.sin() + x.cos() + x.powf(f64::from(1.7_f32)) + x.tanh() + erf(x);
            let error = (f64::from(o[i]) - expected).abs();
            assert!(error <= expected.abs().max(1.0) * 1e-6, "item {i}: x {x}: {} not {expected}", o[i]);
            let expected = d[i].sin() + d[i].exp();
            let error = (rd[i] - expected).abs();
            assert!(error <= expected.abs().max(1.0) * 1e-15, "double item {i}: {} not {expected}", rd[i]);
        }
    });
}

/// Error function by its series, good enough for the arguments here.
fn erf(x: f64) -> f64 {
    if x > 5.0 {
        return 1.0;
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn matrix_instruction() {
    for arch in WITH_WMMA {
        matrix_instruction_of(arch);
    }
}

fn matrix_instruction_of(arch: Arch) {
    on_every_backend_of(arch, |mut gpu| {
        let spread = arch == Arch::Gfx1201;
        let mut random = Random(13);
        // Small multiples of 1/8, exact as halves.
        let mut tile =
            || -> Vec<f32> { (0..256).map(|_| (random.next() >> 59) as f32 / 8.0 - 2.0).collect() };
        let (a, b, c) = (tile(), tile(), tile());
        let half = |x: f32| -> u16 {
            if x == 0.0 {
                return 0;
            }
            let bits = x.to_bits();
            ((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 | bits >> 13 & 0x3ff) as u16
        };
        // Lane l of gfx1100 has row l of A, column l of B, and every second element of column l of C; of gfx1201 it
        // has half the row, half the column, and consecutive elements.
        let per_lane = if spread { 8 } else { 16 };
        let inner = |lane: usize, n: usize| if spread { n / 4 * 8 + lane / 16 * 4 + n % 4 } else { n };
        let row = |lane: usize, r: usize| if spread { lane / 16 * 8 + r } else { 2 * r + lane / 16 };
        let mut a_lanes = vec![0_u16; 512];
        let mut b_lanes = vec![0_u16; 512];
        let mut c_lanes = vec![0.0_f32; 256];
        for lane in 0..32 {
            for n in 0..per_lane {
                let k = inner(lane, n);
                a_lanes[lane * per_lane + n] = half(a[lane % 16 * 16 + k]);
                b_lanes[lane * per_lane + n] = half(b[k * 16 + lane % 16]);
            }
            for r in 0..8 {
                c_lanes[lane * 8 + r] = c[row(lane, r) * 16 + lane % 16];
            }
        }
        let (a_va, b_va, c_va) = (gpu.buffer(&a_lanes), gpu.buffer(&b_lanes), gpu.buffer(&c_lanes));
        let kernel = gpu.load(fixture!("wm"), "wm");
        gpu.launch(&kernel, grid(1), [32, 1, 1], &Args::default().push(a_va).push(b_va).push(c_va)).unwrap();
        let result = gpu.fetch::<f32>(c_va, 256);
        for lane in 0..32 {
            for r in 0..8 {
                let (row, col) = (row(lane, r), lane % 16);
                let expected =
                    (0..16).fold(c[row * 16 + col], |sum, k| sum + a[row * 16 + k] * b[k * 16 + col]);
                assert_eq!(result[lane * 8 + r], expected, "row {row} column {col}");
            }
        }
    });
}

#[test]
fn profiled_kernel_counts_what_it_executes() {
    WITH_WMMA.into_iter().for_each(|arch| {
        on_every_backend_of(arch, profiled_kernel_of);
    });
}

fn profiled_kernel_of(mut gpu: Gpu) {
    let buffers: [u64; 3] = core::array::from_fn(|_| gpu.buffer(&[0_u16; 512]));
    let [a, b, c] = buffers;
    let kernel = gpu.load(fixture!("wm"), "wm");
    gpu.profile = Some(Profile::new());
    let args = Args::default().push(a).push(b).push(c);
    let waves = 3;
    let executed = gpu.launch(&kernel, grid(waves), [32, 1, 1], &args).unwrap();
    let profile = gpu.profile.take().unwrap();
    for op in [Op::V_WMMA_F32_16X16X16_F16, Op::S_ENDPGM] {
        assert_eq!(profile.executed(op), u64::from(waves), "{op:?}");
    }
    // A VOPD is one instruction of two operations.
    let operations: u64 = profile.by_count().iter().map(|(_, count)| count).sum();
    assert!((executed..=executed * 2).contains(&operations), "{operations} in {executed} instructions");
    assert_eq!(profile.executed(Op::S_WAITCNT), 0);
}
