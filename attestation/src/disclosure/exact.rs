//! Integer linear algebra: what turns a suspicion modulo a prime into a fact.

#![expect(
    clippy::indexing_slicing,
    reason = "every index is below the dimensions the matrix was built with"
)]

/// An intermediate value did not fit: nothing may be concluded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overflow;

/// Integer multipliers, one per row and not all zero, under which every column sums to zero; or `None` if
/// the columns reach full rank. `columns[j][row]` are 0/1.
///
/// Fraction-free (Bareiss): every intermediate value is a minor of the columns beside a unit matrix, hence of
/// a 0/1 matrix, so nothing overflows for up to 36 rows, and beyond only where minors really are that large.
pub(super) fn vanishing(rows: usize, columns: &[&[bool]]) -> Result<Option<Vec<i128>>, Overflow> {
    let width = columns.len();
    let mut matrix: Vec<Vec<i128>> = (0..rows)
        .map(|row| {
            let sums = columns.iter().map(|column| i128::from(column[row]));
            sums.chain((0..rows).map(|unit| i128::from(unit == row)))
                .collect()
        })
        .collect();
    let rank = eliminate(&mut matrix, width)?;
    Ok(matrix.get(rank).map(|row| {
        let multipliers = &row[width..];
        let divisor = multipliers
            .iter()
            .fold(0, |divisor, value| gcd(divisor, value.unsigned_abs()));
        let divisor = i128::try_from(divisor.max(1)).unwrap_or(1);
        multipliers.iter().map(|value| value / divisor).collect()
    }))
}

/// The rank over the rationals.
pub(super) fn rank(rows: usize, columns: &[&[bool]]) -> Result<usize, Overflow> {
    let line = |row: usize| columns.iter().map(|column| i128::from(column[row])).collect();
    eliminate(&mut (0..rows).map(line).collect::<Vec<_>>(), columns.len())
}

/// `multipliers · column`.
pub(super) fn combine(multipliers: &[i128], column: &[bool]) -> Result<i128, Overflow> {
    let chosen = multipliers.iter().zip(column).filter(|(_, bit)| **bit);
    chosen
        .into_iter()
        .try_fold(0, |sum: i128, (value, _)| sum.checked_add(*value))
        .ok_or(Overflow)
}

/// Fraction-free elimination with pivots in the first `width` columns; the rank of that part.
/// Rows from the rank on are zero there.
fn eliminate(matrix: &mut [Vec<i128>], width: usize) -> Result<usize, Overflow> {
    let mut rank = 0;
    let mut previous = 1;
    for column in 0..width {
        let Some(found) = (rank..matrix.len()).find(|row| matrix[*row][column] != 0) else {
            continue;
        };
        matrix.swap(rank, found);
        let (above, below) = matrix.split_at_mut(rank + 1);
        let pivot = &above[rank];
        for row in below {
            let factor = row[column];
            for (value, top) in row.iter_mut().zip(pivot) {
                let left = pivot[column].checked_mul(*value).ok_or(Overflow)?;
                let right = factor.checked_mul(*top).ok_or(Overflow)?;
                *value = left.checked_sub(right).ok_or(Overflow)? / previous;
            }
        }
        previous = matrix[rank][column];
        rank += 1;
    }
    Ok(rank)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_found_and_full_rank_is_not_denied() {
        let columns: [&[bool]; 2] = [&[true, true, false], &[false, true, true]];
        let found = vanishing(3, &columns).unwrap().unwrap();
        assert!(columns.iter().all(|column| combine(&found, column) == Ok(0)));
        assert!(found.iter().any(|value| *value != 0));
        let full: [&[bool]; 3] = [columns[0], columns[1], &[true, false, true]];
        assert_eq!(vanishing(3, &full), Ok(None));
        assert_eq!((rank(3, &columns), rank(3, &full)), (Ok(2), Ok(3)));
        assert_eq!(vanishing(0, &[]), Ok(None));
        assert_eq!(vanishing(1, &[]), Ok(Some(vec![1])));
    }

    #[test]
    fn the_worst_minors_of_order_36_do_not_overflow() {
        // Paley conference-like pattern modulo 37: quadratic residues give very large determinants.
        let residues: Vec<usize> = (1..37).map(|x| x * x % 37).collect();
        let columns: Vec<Vec<bool>> = (0..36)
            .map(|j| (0..36).map(|i| residues.contains(&((i + 37 - j) % 37))).collect())
            .collect();
        let columns: Vec<&[bool]> = columns.iter().map(Vec::as_slice).collect();
        assert_eq!(rank(36, &columns), Ok(36));
        let found = vanishing(36, &columns[..35]).unwrap().unwrap();
        assert!(
            columns[..35]
                .iter()
                .all(|column| combine(&found, column) == Ok(0))
        );
        assert_ne!(combine(&found, columns[35]), Ok(0));
    }

    #[test]
    fn overflow_is_reported_not_wrapped() {
        // Sylvester-type 0/1 matrix of order 127: its determinant is 2^441 / ... far beyond 128 bits.
        let columns: Vec<Vec<bool>> = (1_u32..128)
            .map(|j| (1_u32..128).map(|i| (i & j).count_ones() % 2 == 1).collect())
            .collect();
        let columns: Vec<&[bool]> = columns.iter().map(Vec::as_slice).collect();
        assert_eq!(rank(127, &columns), Err(Overflow));
    }
}
