//! Texels across the edges of a cube's faces.

/// Faces of a cube.
pub(crate) const FACES: u32 = 6;
/// Slots that coordinates count for each cube of an array of cubes.
const SLOTS: u32 = 8;
/// Coordinates on a face go from here on (`v_cubesc_f32` and `v_cubetc_f32`, divided, and 1.5 added).
pub(crate) const ORIGIN: f64 = 1.0;

/// Texel of a cube: face, column and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnFace {
    pub(crate) face: u32,
    pub(crate) at: [i64; 2],
}

/// The slice of the cube and the face that a coordinate names.
pub(crate) fn face(coordinate: f32) -> (u32, u32) {
    let slot = coordinate.round_ties_even().max(0.0) as u32;
    ((slot / SLOTS).saturating_mul(FACES), (slot % SLOTS).min(FACES - 1))
}

/// Axis and sign of the direction of a face, and of its columns and rows: 0, 1, 2 for x, y, z.
fn axes(face: u32) -> [(usize, i64); 3] {
    match face {
        0 => [(0, 1), (2, -1), (1, -1)],
        1 => [(0, -1), (2, 1), (1, -1)],
        2 => [(1, 1), (0, 1), (2, 1)],
        3 => [(1, -1), (0, 1), (2, -1)],
        4 => [(2, 1), (0, 1), (1, -1)],
        _ => [(2, -1), (0, -1), (1, -1)],
    }
}

/// The texel at a place of a face of `size` texels; one texel outside along one axis is the neighbour on the next face. `None`
/// for one that is outside along both, as three faces meet there.
pub(crate) fn texel(face: u32, at: [i64; 2], size: u32) -> Option<OnFace> {
    let size = i64::from(size);
    let outside = at.map(|at| !(0..size).contains(&at));
    match outside {
        [false, false] => return Some(OnFace { face, at }),
        [true, true] => return None,
        _ => {}
    }
    // In halves of a texel from the middle of the cube, whose faces are `size` from it.
    let [forward, columns, rows] = axes(face);
    let mut point = [0; 3];
    let middle = |at: i64| (2 * at + 1 - size).clamp(-size, size);
    for ((axis, sign), distance) in [(forward, size - 1), (columns, middle(at[0])), (rows, middle(at[1]))] {
        point[axis] = sign * distance;
    }
    let face = (0..FACES).find(|face| {
        let (axis, sign) = axes(*face)[0];
        point[axis] * sign == size
    })?;
    let [_, columns, rows] = axes(face);
    let place = |(axis, sign): (usize, i64)| ((point[axis] * sign + size - 1) / 2).clamp(0, size - 1);
    Some(OnFace { face, at: [place(columns), place(rows)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lead_to_the_face_behind_them() {
        let on = |face, at| Some(OnFace { face, at });
        assert_eq!(texel(0, [1, 2], 4), on(0, [1, 2]));
        // To the left of +X is +Z, whose last column it is; to the right -Z, whose first.
        assert_eq!(texel(0, [-1, 2], 4), on(4, [3, 2]));
        assert_eq!(texel(0, [4, 1], 4), on(5, [0, 1]));
        // Above +X is +Y: its last column, from its last row on.
        assert_eq!(texel(0, [0, -1], 4), on(2, [3, 3]));
        assert_eq!(texel(0, [3, -1], 4), on(2, [3, 0]));
        // Below +Z is -Y, whose first row it is.
        assert_eq!(texel(4, [1, 4], 4), on(3, [1, 0]));
        assert_eq!(texel(4, [-1, 4], 4), None);
    }

    #[test]
    fn neighbours_are_neighbours_in_both_directions() {
        let size = 3;
        for face in 0..FACES {
            for at in (0..3).flat_map(|n| [[-1, n], [3, n], [n, -1], [n, 3]]) {
                let there = texel(face, at, size).expect("one axis");
                assert_ne!(there.face, face);
                // One of its own four neighbours is the texel that it was reached from.
                let from = OnFace { face, at: at.map(|at| at.clamp(0, 2)) };
                let [x, y] = there.at;
                let back = [[x - 1, y], [x + 1, y], [x, y - 1], [x, y + 1]];
                assert!(back.iter().any(|at| texel(there.face, *at, size) == Some(from)), "{face} {at:?}");
            }
        }
    }

    #[test]
    fn coordinates_count_eight_for_a_cube() {
        assert_eq!(
            [0.0, 5.4, 6.0, 8.0, 13.0, -3.0].map(face),
            [(0, 0), (0, 5), (0, 5), (6, 0), (6, 5), (0, 0)]
        );
        assert_eq!(face(f32::NAN), (0, 0));
        assert_eq!(face(f32::INFINITY).1, 5);
    }
}
