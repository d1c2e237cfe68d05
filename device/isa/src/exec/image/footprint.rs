//! The part of an image that a sample covers, by the distances to its neighbours.

/// Places that stand for a part of an image, and the level of detail that they are taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Footprint {
    /// Logarithm of the texels of the largest level from one place to the next.
    pub(crate) level: f64,
    /// Places, at equal distances around the middle.
    pub(crate) places: u32,
    /// Number of the distance that they are along.
    pub(crate) longer: usize,
}

impl Footprint {
    /// The footprint of two distances in texels, with `most` places.
    pub(crate) fn of(distances: [[f64; 3]; 2], most: u32) -> Self {
        let lengths =
            distances.map(|distance| distance.iter().map(|along| along * along).sum::<f64>().sqrt());
        let longer = usize::from(lengths[1] > lengths[0]);
        let (long, short) = (lengths[longer], lengths[1 - longer]);
        let ratio = long / short;
        let places = match most {
            // Also where one of them is nothing.
            most if most > 1 && long > 0.0 && ratio > 1.0 => (ratio.min(most.into()).ceil()) as u32,
            _ => 1,
        };
        Self { level: (long / f64::from(places)).log2(), places, longer }
    }

    /// The parts of the longer distance from the middle to the places.
    pub(crate) fn parts(self) -> impl Iterator<Item = f64> {
        let count = f64::from(self.places);
        (0..self.places).map(move |place| (f64::from(place) + 0.5) / count - 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_distance_gives_the_level() {
        let footprint = Footprint::of([[3.0, 4.0, 0.0], [0.0, 2.0, 0.0]], 1);
        assert_eq!(footprint, Footprint { level: 5.0_f64.log2(), places: 1, longer: 0 });
        assert_eq!(Footprint::of([[0.0; 3], [0.0, 0.0, 8.0]], 1).level, 3.0);
        assert_eq!(Footprint::of([[0.0; 3]; 2], 16).level, f64::NEG_INFINITY);
        assert_eq!(footprint.parts().collect::<Vec<_>>(), [0.0]);
    }

    #[test]
    fn places_share_a_long_footprint() {
        let footprint = Footprint::of([[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]], 16);
        assert_eq!(footprint, Footprint { level: 0.0, places: 4, longer: 1 });
        assert_eq!(footprint.parts().collect::<Vec<_>>(), [-0.375, -0.125, 0.125, 0.375]);
        assert_eq!(Footprint::of([[1.0, 0.0, 0.0], [0.0, 4.0, 0.0]], 2).level, 1.0);
        assert_eq!(
            Footprint::of([[0.0; 3], [0.0, 4.0, 0.0]], 4),
            Footprint { level: 0.0, places: 4, longer: 1 }
        );
        let hostile = Footprint::of([[f64::NAN; 3], [f64::INFINITY; 3]], 16);
        assert!(hostile.places <= 16);
    }
}
