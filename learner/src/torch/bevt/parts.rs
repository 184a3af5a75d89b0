//! Which tensor belongs to which part of a network.

use std::collections::{BTreeMap, BTreeSet};

use tch::nn::VarStore;

use crate::bev::personal::Part;

/// Notes the tensors that appear in a store while a piece of the network is being built.
///
/// What a tensor is called plays no role, so neither renaming a module nor nesting the network deeper moves a tensor
/// from one part to another. A tensor that was never claimed belongs to none.
pub(crate) struct Parts<'a> {
    vars: &'a VarStore,
    owners: BTreeMap<String, Part>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(vars: &'a VarStore) -> Self {
        Self {
            vars,
            owners: BTreeMap::new(),
        }
    }

    /// Builds a piece; its tensors belong to `part`.
    pub(crate) fn claim<T>(&mut self, part: Part, build: impl FnOnce() -> T) -> T {
        let names = || -> BTreeSet<String> { self.vars.variables().into_keys().collect() };
        let before = names();
        let piece = build();
        let new: Vec<String> = names().difference(&before).cloned().collect();
        self.owners.extend(new.into_iter().map(|name| (name, part)));
        piece
    }

    pub(crate) fn finish(self) -> BTreeMap<String, Part> {
        self.owners
    }
}
