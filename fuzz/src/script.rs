//! The input as a list of small choices. When it is used up every choice is 0.

/// Reads choices from the front of the input.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `count`; 0 where there is nothing to choose from.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let number = usize::from(self.byte());
        let number = if count > 256 {
            number << 8 | usize::from(self.byte())
        } else {
            number
        };
        number.checked_rem(count).unwrap_or(0)
    }

    /// Changes bytes: overwrites one, cuts the end off, or puts one in.
    pub(crate) fn bend(&mut self, bytes: &mut Vec<u8>) {
        let (how, at, value) = (self.byte(), self.below(bytes.len()), self.byte());
        match how % 8 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, value),
            2 => bytes.extend_from_slice(&[value; 3]),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= value.max(1);
                }
            }
        }
    }
}
