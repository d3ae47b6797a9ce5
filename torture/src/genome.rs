//! What a seed makes before the rules are applied: a tree of numbers, and the strategy that proptest draws it
//! from.
//!
//! A gene says too little to be wrong: `elaborate` decides what it stands for where it is, and an operation
//! that the documents do not allow there becomes the sequence of its children. So proptest may shrink a
//! genome in any way, and each result is a program that has to end. A `kind` of 0 is the sequence everywhere,
//! which proptest comes to when it shrinks the number: an operation then gives way to what is below it.
//!
//! **Why proptest**: its strategies are values that generate and shrink with one description, `vec` removes
//! subtrees before it makes numbers smaller, and the random numbers come from a seed that this program gives.
//! `ValueTree` can be driven by hand, because a test that runs in another process and fails only now and then
//! needs that. `quickcheck` shrinks by type and without memory of how a value was made; `arbitrary` does not
//! shrink.

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How many settings a genome has.
pub const SETTINGS: usize = 17;

/// Below this are the numbers that choose an operation.
pub const KINDS: u16 = 1000;

/// One operation, before it is known which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gene {
    /// Chooses the operation; 0 is a sequence.
    pub kind: u16,
    /// Numbers for the operation to use.
    pub numbers: [u8; 3],
    /// What is below it.
    pub kids: Vec<Gene>,
}

/// A program, before the rules are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genome {
    /// Chooses workers, pools and the like.
    pub settings: Vec<u8>,
    /// The program's task.
    pub root: Gene,
    /// What threads outside of the runtime do beside it.
    pub outside: Vec<Gene>,
}

/// Number of children by depth.
const KIDS: [RangeInclusive<usize>; 8] = [1..=4, 0..=3, 0..=3, 0..=2, 0..=2, 0..=2, 0..=1, 0..=1];

fn gene(depth: usize) -> BoxedStrategy<Gene> {
    let kids = match KIDS.get(depth) {
        Some(range) => vec(gene(depth + 1), range.clone()).boxed(),
        None => Just(Vec::new()).boxed(),
    };
    // The children come first, so that proptest removes subtrees before it changes numbers.
    let kind = if depth == 0 { Just(0).boxed() } else { (0..KINDS).boxed() };
    (kids, kind, any::<[u8; 3]>()).prop_map(|(kids, kind, numbers)| Gene { kind, numbers, kids }).boxed()
}

/// Every genome.
pub fn genomes() -> BoxedStrategy<Genome> {
    (gene(0), vec(gene(3), 0..=2), vec(any::<u8>(), SETTINGS))
        .prop_map(|(root, outside, settings)| Genome { settings, root, outside })
        .boxed()
}

/// The runner that draws the genome of `seed`.
pub fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The genome of `seed`, in a form that shrinks.
pub fn tree(strategy: &BoxedStrategy<Genome>, seed: u64) -> Box<dyn ValueTree<Value = Genome>> {
    strategy.new_tree(&mut runner(seed)).expect("no strategy here refuses a value")
}

/// `settings;root;outside;…`, in numbers.
impl fmt::Display for Genome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ";{}", self.root)?;
        self.outside.iter().try_for_each(|gene| write!(f, ";{gene}"))
    }
}

impl fmt::Display for Gene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.numbers;
        write!(f, "({} {a} {b} {c}", self.kind)?;
        self.kids.iter().try_for_each(|kid| write!(f, "{kid}"))?;
        f.write_char(')')
    }
}

impl Genome {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(';');
        let settings = parts.next()?;
        let byte = |at| u8::from_str_radix(settings.get(at..at + 2)?, 16).ok();
        let settings = (0..SETTINGS).map(|i| byte(2 * i)).collect::<Option<_>>()?;
        let root = Gene::parse(parts.next()?)?;
        let outside = parts.map(Gene::parse).collect::<Option<_>>()?;
        Some(Self { settings, root, outside })
    }
}

impl Gene {
    fn parse(text: &str) -> Option<Self> {
        let (gene, rest) = Self::parse_front(text)?;
        rest.is_empty().then_some(gene)
    }

    fn parse_front(text: &str) -> Option<(Self, &str)> {
        let mut rest = text.strip_prefix('(')?;
        let end = rest.find(['(', ')'])?;
        let numbers: Vec<u16> = rest[..end].split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let [kind, a, b, c] = numbers[..] else { return None };
        let byte = |n: u16| u8::try_from(n).ok();
        let mut gene = Gene { kind, numbers: [byte(a)?, byte(b)?, byte(c)?], kids: Vec::new() };
        rest = &rest[end..];
        while !rest.starts_with(')') {
            let (kid, after) = Self::parse_front(rest)?;
            gene.kids.push(kid);
            rest = after;
        }
        Some((gene, &rest[1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_genome_each_time_and_another_seed_another() {
        let strategy = genomes();
        assert_eq!(tree(&strategy, 5).current(), tree(&strategy, 5).current());
        assert_ne!(tree(&strategy, 5).current(), tree(&strategy, 6).current());
    }

    #[test]
    fn a_genome_is_read_as_it_was_written() {
        let strategy = genomes();
        for seed in 0..50 {
            let genome = tree(&strategy, seed).current();
            assert_eq!(Genome::parse(&genome.to_string()), Some(genome));
        }
        for text in ["", "00", "(1 2 3)", &format!("{};(1 2 3 4", "00".repeat(SETTINGS))] {
            assert_eq!(Genome::parse(text), None, "{text}");
        }
    }

    #[test]
    fn shrinking_ends_at_nothing() {
        let mut tree = tree(&genomes(), 7);
        while tree.simplify() {}
        let genome = tree.current();
        assert_eq!((genome.settings, genome.outside.len()), (vec![0; SETTINGS], 0));
        assert!(genome.root.kids.iter().all(|kid| kid.kids.is_empty() && kid.kind == 0));
    }
}
