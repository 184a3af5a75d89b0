//! Which parts of a BEV network a client keeps to itself.

use serde::{Deserialize, Serialize};

/// A part of a network, by what it does and whatever its tensors are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// From pictures to feature maps.
    Encoder,
    /// The learned BEV queries.
    Query,
    /// The linear maps that embed a camera's place and its rays: the only tensors that calibrations enter directly.
    CameraEmbedding,
    /// Queries, keys, values and output projections of all attentions, with their norms and position biases.
    Attention,
    /// Whatever else turns features into the BEV map: feature projections, perceptrons, convolutions between levels.
    Fusion,
    /// Upsampling to the label's grid.
    Decoder,
    /// The last layer.
    Head,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 7] = [
        Self::Encoder,
        Self::Query,
        Self::CameraEmbedding,
        Self::Attention,
        Self::Fusion,
        Self::Decoder,
        Self::Head,
    ];
}

/// What a strategy keeps at the client. Everything else is averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PersonalPart {
    /// `FedAvg`: nothing.
    Nothing,
    /// `FedCaP`: the camera embeddings.
    #[default]
    CameraEmbeddings,
    /// `fedrep-encoder`: the image encoder, as the `FedBEVT` paper personalises under the name `FedRep`.
    Encoder,
    /// `FedRep` as its own paper has it: the head.
    Head,
    /// `fedtp-local`: the attention parameters, kept at the client instead of made by a server's hypernetwork.
    Attention,
    /// `Local`: everything. Such a client may still take part in rounds; its upload is one zero.
    Everything,
}

impl PersonalPart {
    /// All choices.
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::CameraEmbeddings,
        Self::Encoder,
        Self::Head,
        Self::Attention,
        Self::Everything,
    ];

    /// Whether tensors of a part stay.
    #[must_use]
    pub fn keeps(self, part: Part) -> bool {
        match self {
            Self::Nothing => false,
            Self::CameraEmbeddings => part == Part::CameraEmbedding,
            Self::Encoder => part == Part::Encoder,
            Self::Head => part == Part::Head,
            Self::Attention => part == Part::Attention,
            Self::Everything => true,
        }
    }

    /// The strategy's usual name.
    #[must_use]
    pub fn strategy(self) -> &'static str {
        match self {
            Self::Nothing => "fedavg",
            Self::CameraEmbeddings => "fedcap",
            Self::Encoder => "fedrep-encoder",
            Self::Head => "fedrep-head",
            Self::Attention => "fedtp-local",
            Self::Everything => "local",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_keeps_its_part_and_no_other() {
        let kept = |personal: PersonalPart| {
            Part::ALL
                .into_iter()
                .filter(|p| personal.keeps(*p))
                .collect::<Vec<_>>()
        };
        assert!(kept(PersonalPart::Nothing).is_empty());
        assert_eq!(kept(PersonalPart::CameraEmbeddings), [Part::CameraEmbedding]);
        assert_eq!(kept(PersonalPart::Encoder), [Part::Encoder]);
        assert_eq!(kept(PersonalPart::Head), [Part::Head]);
        assert_eq!(kept(PersonalPart::Attention), [Part::Attention]);
        assert_eq!(kept(PersonalPart::Everything), Part::ALL);
    }

    #[test]
    fn names_are_distinct_and_stored_as_words() {
        let names: std::collections::BTreeSet<_> = PersonalPart::ALL.iter().map(|p| p.strategy()).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(
            serde_json::to_string(&PersonalPart::CameraEmbeddings).unwrap(),
            "\"camera-embeddings\""
        );
    }
}
