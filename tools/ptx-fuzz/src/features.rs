//! Optional features of generated programs. A program has each feature with its own probability, so that features occur in all
//! combinations. `--without` excludes features, to find the one that a failure needs.

use crate::rng::Rng;

/// An optional feature of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Named `.v2` and `.v4` registers whose components are operands.
    VectorRegisters,
    /// `mov` between a scalar and a named vector register.
    VectorMoves,
    /// Approximate functions, observed through rounding and bounds that every allowed result satisfies.
    Approximations,
    /// `alloca`, `stacksave`, `stackrestore`.
    Alloca,
    Activemask,
    /// 128-bit registers and accesses.
    B128,
    DynamicShared,
    /// Functions that all threads of a mask or of the block enter together, with warp operations and barriers inside.
    CollectiveFunctions,
    /// Atomic float additions in any order; all sums are exact.
    FloatAtomics,
    /// A constant array of up to 63 KB.
    LargeConstants,
    /// A kernel parameter of up to 32 KB, and large structures passed to functions.
    LargeParameters,
    /// Hundreds of global variables.
    ManyGlobals,
    /// Local arrays of kilobytes.
    DeepFrames,
    /// Matrix products of warps and moves of matrices.
    Matrices,
    /// `cp.async` in pipelines.
    AsyncCopies,
    /// Barriers in shared memory and bulk copies.
    MemoryBarriers,
    /// Matrix products of warpgroups.
    Warpgroups,
    /// Accesses to shared memory of the cluster, and its barrier; clusters have one, two or four blocks.
    Clusters,
}

impl Feature {
    pub const ALL: [Feature; 18] = [
        Feature::VectorRegisters,
        Feature::VectorMoves,
        Feature::Approximations,
        Feature::Alloca,
        Feature::Activemask,
        Feature::B128,
        Feature::DynamicShared,
        Feature::CollectiveFunctions,
        Feature::FloatAtomics,
        Feature::LargeConstants,
        Feature::LargeParameters,
        Feature::ManyGlobals,
        Feature::DeepFrames,
        Feature::Matrices,
        Feature::AsyncCopies,
        Feature::MemoryBarriers,
        Feature::Warpgroups,
        Feature::Clusters,
    ];

    /// Features for tensor cores and asynchronous copies. [`Features::draw_tensor`] draws them.
    pub const TENSOR: [Feature; 4] = [Feature::Matrices, Feature::AsyncCopies, Feature::MemoryBarriers, Feature::Warpgroups];

    /// Returns whether only programs with a feature of [`Feature::TENSOR`] can have the feature.
    fn is_of_tensor_programs(self) -> bool {
        self == Feature::Clusters || Feature::TENSOR.contains(&self)
    }

    pub fn name(self) -> &'static str {
        match self {
            Feature::VectorRegisters => "vector-registers",
            Feature::VectorMoves => "vector-moves",
            Feature::Approximations => "approximations",
            Feature::Alloca => "alloca",
            Feature::Activemask => "activemask",
            Feature::B128 => "b128",
            Feature::DynamicShared => "dynamic-shared",
            Feature::CollectiveFunctions => "collective-functions",
            Feature::FloatAtomics => "float-atomics",
            Feature::LargeConstants => "large-constants",
            Feature::LargeParameters => "large-parameters",
            Feature::ManyGlobals => "many-globals",
            Feature::DeepFrames => "deep-frames",
            Feature::Matrices => "matrices",
            Feature::AsyncCopies => "async-copies",
            Feature::MemoryBarriers => "memory-barriers",
            Feature::Warpgroups => "warpgroups",
            Feature::Clusters => "clusters",
        }
    }

    pub fn from_name(name: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.name() == name)
    }

    /// Returns the number of programs per thousand that have the feature; for a feature of [`Feature::TENSOR`], of the tensor
    /// programs, and for [`Feature::Clusters`], of those for sm_90 and later.
    fn per_mille(self) -> usize {
        match self {
            Feature::LargeConstants => 12,
            Feature::LargeParameters => 30,
            Feature::ManyGlobals => 6,
            Feature::Alloca | Feature::DeepFrames => 80,
            Feature::Activemask | Feature::VectorMoves => 100,
            Feature::B128 | Feature::DynamicShared | Feature::FloatAtomics => 140,
            Feature::VectorRegisters | Feature::Approximations => 180,
            Feature::CollectiveFunctions => 400,
            Feature::Matrices | Feature::AsyncCopies | Feature::MemoryBarriers => 600,
            Feature::Warpgroups => 400,
            Feature::Clusters => 250,
        }
    }

    /// Returns the section of the template table with the feature's instructions; `None` if the feature needs more than a section.
    pub fn section(self) -> Option<&'static str> {
        match self {
            Feature::VectorRegisters => Some("vector"),
            Feature::VectorMoves => Some("vector_move"),
            Feature::Approximations => Some("approximate"),
            Feature::Alloca => Some("alloca"),
            Feature::Activemask => Some("activemask"),
            Feature::B128 => Some("b128"),
            _ => None,
        }
    }
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    pub fn has(self, feature: Feature) -> bool {
        self.0 >> feature as u32 & 1 != 0
    }

    pub fn with(self, feature: Feature) -> Features {
        Features(self.0 | 1 << feature as u32)
    }

    /// Draws the features of a program. Consumes one number of `rng` per feature, even for `excluded` ones, so that excluding a feature
    /// does not change the others.
    pub fn draw(rng: &mut Rng, excluded: Features) -> Features {
        let mut drawn = Features::default();
        for feature in Feature::ALL.into_iter().filter(|feature| !feature.is_of_tensor_programs()) {
            let wanted = rng.below(1000) < feature.per_mille();
            if wanted && !excluded.has(feature) {
                drawn = drawn.with(feature);
            }
        }
        drawn
    }

    /// Adds the features of a tensor program: at least one, unless all are excluded.
    pub fn draw_tensor(self, rng: &mut Rng, excluded: Features) -> Features {
        let allowed: Vec<Feature> = Feature::TENSOR.into_iter().filter(|&feature| !excluded.has(feature)).collect();
        let mut drawn = self;
        while !drawn.has_tensor() && !allowed.is_empty() {
            drawn =
                allowed.iter().filter(|feature| rng.below(1000) < feature.per_mille()).fold(drawn, |drawn, &feature| drawn.with(feature));
        }
        drawn
    }

    /// Adds [`Feature::Clusters`] to those of a tensor program for sm_90 or later, or not.
    pub fn draw_clusters(self, rng: &mut Rng, excluded: Features) -> Features {
        let wanted = rng.below(1000) < Feature::Clusters.per_mille();
        if wanted && !excluded.has(Feature::Clusters) { self.with(Feature::Clusters) } else { self }
    }

    /// Returns whether there is a feature of [`Feature::TENSOR`].
    pub fn has_tensor(self) -> bool {
        Feature::TENSOR.into_iter().any(|feature| self.has(feature))
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Features {
        features.into_iter().fold(Features::default(), Features::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_drawn_and_can_be_excluded() {
        let mut rng = Rng::new(1);
        let mut seen = [0; Feature::ALL.len()];
        for _ in 0..4000 {
            let features = Features::draw(&mut rng, Features::default());
            for feature in Feature::ALL {
                seen[feature as usize] += usize::from(features.has(feature));
            }
        }
        for feature in Feature::ALL.into_iter().filter(|feature| !feature.is_of_tensor_programs()) {
            let expected = feature.per_mille() * 4;
            assert!(seen[feature as usize].abs_diff(expected) < expected / 2 + 8, "{}: {}", feature.name(), seen[feature as usize]);
            assert_eq!(Feature::from_name(feature.name()), Some(feature));
        }
        let none = Feature::ALL.into_iter().collect();
        assert_eq!(Features::draw(&mut rng, none), Features::default());
        assert_eq!(Features::default().draw_tensor(&mut rng, none), Features::default());
    }

    #[test]
    fn every_tensor_feature_is_drawn() {
        let mut rng = Rng::new(1);
        let mut seen = [0; Feature::ALL.len()];
        for _ in 0..1000 {
            let features = Features::default().draw_tensor(&mut rng, Features::default().with(Feature::AsyncCopies));
            assert!(features.has_tensor());
            for feature in Feature::TENSOR {
                seen[feature as usize] += usize::from(features.has(feature));
            }
        }
        let count = |feature: Feature| seen[feature as usize];
        assert_eq!(count(Feature::AsyncCopies), 0);
        assert!(
            [Feature::Matrices, Feature::MemoryBarriers, Feature::Warpgroups]
                .into_iter()
                .all(|feature| (350..900).contains(&count(feature)))
        );
    }
}
