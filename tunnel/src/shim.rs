//! The shim in front of each frame, 16 bytes in network byte order, 24 if the frame is resent.
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | version, high nibble; type, low nibble |
//! | 1 | lane |
//! | 1 | lane of the predecessor; 0xff: there is none |
//! | 1 | flags: bit 0, not kept; bits 1 and 2 are zero; bits 3 to 7, see [`Shim::clear`] |
//! | 4 | session |
//! | 4 | number |
//! | 4 | number of the predecessor; 0 if there is none |
//!
//! A frame that is resent has 8 bytes more: the lane of its first transmission (1), zero (3), and the
//! number of its first transmission (4).

use crate::number::{Lane, Session, WireNumber};
pub use crate::repair_shim::RepairShim;

/// Bytes of a shim.
pub const LEN: usize = 16;
/// Bytes of the shim of a frame that is resent.
pub const RESENT_LEN: usize = 24;

/// Version of shim and messages, in the high bits of their first byte.
pub const VERSION: u8 = 2;
const DATA: u8 = 0;
const RESENT: u8 = 1;
const REPAIR: u8 = 2;
const CONTROL: u8 = 3;
/// In place of the lane of a predecessor, where there is none.
pub(crate) const NO_LANE: u8 = 0xff;
const NOT_KEPT: u8 = 1 << 0;
const RESERVED: u8 = 0b110;
const CLEAR_SHIFT: u32 = 3;

/// Largest value of [`Shim::clear`].
pub const CLEAR_MAX: u8 = 31;

/// Where the last byte of the session stands.
pub(crate) const SESSION_END: usize = 7;

/// The first byte of a control message.
pub(crate) const CONTROL_BYTE: u8 = VERSION << 4 | CONTROL;

/// Whether `bytes` begins as a control message does.
#[inline]
pub(crate) fn is_control(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & 0xf == CONTROL)
}

/// The place of a frame among all that the tunnel carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shim {
    /// The lane of this transmission.
    pub lane: Lane,
    /// Its number.
    pub number: WireNumber,
    /// The session of the receiving end.
    pub session: Session,
    /// The frame before it in its flow bucket.
    pub predecessor: Option<(Lane, WireNumber)>,
    /// The first transmission, if this is not it.
    pub original: Option<(Lane, WireNumber)>,
    /// The sender keeps the frame until it is reported.
    pub is_kept: bool,
    /// Of a positive ACK: the newest response of its flow bucket that is none lies at least 2^`clear` numbers before its
    /// first transmission, on the same lane; [`CLEAR_MAX`] if there is none. 0 of any other frame.
    pub clear: u8,
}

/// Why a shim is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// The frame ends within it.
    Truncated,
    /// Another version.
    Version,
    /// A type, lane, flag or reserved byte that has no meaning.
    Invalid,
}

/// The content behind a shim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// A frame.
    Frame(Shim),
    /// A repair frame.
    Repair(RepairShim),
    /// A control message, which begins with the shim, perhaps of another version.
    Control,
}

impl Shim {
    /// The frames that this one must not overtake.
    #[inline]
    pub(crate) const fn order(&self) -> Order {
        let (lane, before) = wire(self.predecessor);
        let clear = if self.clear < CLEAR_MAX { self.clear } else { CLEAR_MAX };
        let first = ((lane as u64) << 8 | (clear << CLEAR_SHIFT) as u64) << 32;
        Order { first, before }
    }

    /// Bytes that it takes.
    #[inline]
    pub const fn wire_len(&self) -> usize {
        if self.original.is_some() { RESENT_LEN } else { LEN }
    }

    /// Writes it to the first [`wire_len`](Self::wire_len) bytes of `out`.
    ///
    /// # Panics
    /// If `out` is shorter.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) {
        let kind = if self.original.is_some() { RESENT } else { DATA };
        let flags =
            if self.is_kept { 0 } else { NOT_KEPT } | self.clear.min(CLEAR_MAX) << CLEAR_SHIFT;
        let (before, before_number) = wire(self.predecessor);
        let first = u32::from_be_bytes([VERSION << 4 | kind, self.lane.get(), before, flags]);
        let (head, rest) = out.split_first_chunk_mut::<LEN>().expect("there is room for a shim");
        head[..8].copy_from_slice(&pair(first, self.session.get()));
        head[8..].copy_from_slice(&pair(self.number.0, before_number));
        if self.original.is_some() {
            let (lane, number) = wire(self.original);
            rest[..8].copy_from_slice(&pair(u32::from(lane) << 24, number));
        }
    }

    /// Reads the shim at the start of `bytes`. R-TUN-1
    ///
    /// # Errors
    /// [`Fault`]; never panics.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Content, Fault> {
        let (head, rest) = bytes.split_first_chunk::<LEN>().ok_or(Fault::Truncated)?;
        let [first, lane, before_lane, flags, words @ ..] = *head;
        if first >> 4 != VERSION {
            // The session refuses a control message of another version, and can then report the mismatch.
            return if first & 0xf == CONTROL { Ok(Content::Control) } else { Err(Fault::Version) };
        }
        let word = |at: usize| {
            u32::from_be_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
        };
        let (session, number, before) = (word(0), word(4), word(8));
        let original = match first & 0xf {
            DATA => None,
            RESENT => {
                let more = rest.first_chunk::<8>().ok_or(Fault::Truncated)?;
                let [lane, a, b, c, number @ ..] = *more;
                let lane = Lane::new(lane).filter(|_| [a, b, c] == [0; 3]).ok_or(Fault::Invalid)?;
                Some((lane, WireNumber(u32::from_be_bytes(number))))
            }
            REPAIR => return RepairShim::parse(head).map(Content::Repair).ok_or(Fault::Invalid),
            CONTROL => return Ok(Content::Control),
            _ => return Err(Fault::Invalid),
        };
        let predecessor = match Lane::new(before_lane) {
            Some(lane) => Some((lane, WireNumber(before))),
            None if before == 0 => None,
            None => return Err(Fault::Invalid),
        };
        let lane = Lane::new(lane).filter(|_| flags & RESERVED == 0).ok_or(Fault::Invalid)?;
        Ok(Content::Frame(Self {
            lane,
            number: WireNumber(number),
            session: Session::new(session),
            predecessor,
            original,
            is_kept: flags & NOT_KEPT == 0,
            clear: flags >> CLEAR_SHIFT,
        }))
    }
}

/// The next first transmission of a lane: what is known of its shim before it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    first: u64,
    lane: Lane,
    /// The number.
    pub number: WireNumber,
}

/// The frames that a frame must not overtake, in two registers: fields that are written one by one and read together make
/// a processor wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// The first half of a shim, of which only the predecessor's lane and *clear* count.
    first: u64,
    before: u32,
}

impl Order {
    /// Where they are.
    const MASK: u64 = ((NO_LANE as u64) << 8 | (u8::MAX << CLEAR_SHIFT) as u64) << 32;

    /// See [`Shim::predecessor`].
    #[inline(always)]
    pub fn predecessor(self) -> Option<(Lane, WireNumber)> {
        let lane = Lane::new((self.first >> 40) as u8)?;
        Some((lane, WireNumber(self.before)))
    }

    /// See [`Shim::clear`].
    #[inline(always)]
    pub const fn clear(self) -> u8 {
        (self.first >> 32) as u8 >> CLEAR_SHIFT
    }
}

impl Next {
    /// Version, type, lane, reserved flags and session.
    const MASK: u64 = (0xffff_0000 | RESERVED as u64) << 32 | 0xffff_ffff;

    /// That of transmission `number`.
    pub const fn new(lane: Lane, session: Session, number: WireNumber) -> Self {
        let first = (((VERSION << 4 | DATA) as u64) << 24 | (lane.get() as u64) << 16) << 32;
        Self { first: first | session.get() as u64, lane, number }
    }

    /// Whether this is it, if it [can be read](Self::order).
    #[inline(always)]
    pub fn is(&self, shim: &[u8; LEN]) -> bool {
        let (first, [number, _]) = Self::words(shim);
        first & Self::MASK == self.first && number == self.number.0
    }

    /// Whether it can be read, and has no predecessor on another lane, if [this is it](Self::is).
    #[inline(always)]
    pub fn is_on_one_lane(&self, shim: &[u8; LEN]) -> bool {
        let (first, [number, before]) = Self::words(shim);
        let lane = Self::before_lane(first);
        lane == self.lane.get() && (before.wrapping_sub(number) as i32) < 0
            || lane == NO_LANE && before == 0
    }

    /// Lane and number of its predecessor, if [this is it](Self::is); or [`NO_LANE`].
    #[inline(always)]
    pub fn predecessor(&self, shim: &[u8; LEN]) -> (u8, WireNumber) {
        let (first, [_, before]) = Self::words(shim);
        (Self::before_lane(first), WireNumber(before))
    }

    /// The frames that it must not overtake, if [this is it](Self::is); `None`, if it contradicts itself.
    #[inline(always)]
    pub fn order(shim: &[u8; LEN]) -> Option<Order> {
        let (first, [_, before]) = Self::words(shim);
        let is_sound = Self::before_lane(first) != NO_LANE || before == 0;
        is_sound.then_some(Order { first: first & Order::MASK, before })
    }

    /// The first half, and the numbers of the second one.
    #[inline(always)]
    fn words(shim: &[u8; LEN]) -> (u64, [u32; 2]) {
        let [first, second] = [0, 8]
            .map(|at| u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|n: usize| shim[at + n])));
        (first, [(second >> 32) as u32, second as u32])
    }

    #[inline(always)]
    const fn before_lane(first: u64) -> u8 {
        (first >> 40) as u8
    }
}

/// Two words in network byte order: one store.
#[inline]
const fn pair(first: u32, second: u32) -> [u8; 8] {
    ((first as u64) << 32 | second as u64).to_be_bytes()
}

const fn wire(place: Option<(Lane, WireNumber)>) -> (u8, u32) {
    match place {
        Some((lane, number)) => (lane.get(), number.0),
        None => (NO_LANE, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_place()(lane in 0..0xff_u8, number: u32) -> (Lane, WireNumber) {
            (Lane::new(lane).expect("a lane"), WireNumber(number))
        }
    }

    prop_compose! {
        fn any_shim()(
            (lane, number) in any_place(), session: u32, is_kept: bool, clear in 0..=CLEAR_MAX,
            predecessor in prop::option::of(any_place()),
            original in prop::option::of(any_place()),
        ) -> Shim {
            Shim { lane, number, session: Session::new(session), predecessor, original, is_kept, clear }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(shim in any_shim(), rest in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = vec![0; shim.wire_len()];
            shim.write(&mut bytes);
            for short in 0..bytes.len() {
                prop_assert_eq!(Shim::read(&bytes[..short]), Err(Fault::Truncated));
            }
            bytes.extend(rest);
            prop_assert_eq!(Shim::read(&bytes), Ok(Content::Frame(shim)));
        }

        /// R-TUN-1: there is one way to write a shim.
        #[test]
        fn any_bytes_are_refused_or_mean_themselves(
            first in prop::sample::select(vec![0x20_u8, 0x21, 0x23, 0x22, 0x10]),
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..30),
        ) {
            let bytes = [&[first][..], &bytes].concat();
            if let Ok(Content::Frame(shim)) = Shim::read(&bytes) {
                let mut again = vec![0; shim.wire_len()];
                shim.write(&mut again);
                prop_assert_eq!(&bytes[..again.len()], &again[..]);
            }
        }
    }

    proptest! {
        /// R-TUN-6: of any shim, against all of its fields.
        #[test]
        fn the_next_shim_is_known_by_its_fields(
            shim in any_shim(), other in any_shim(), same in prop::array::uniform4(any::<bool>()),
        ) {
            let pick = |at: usize| if same[at] { shim } else { other };
            let next = Next::new(pick(0).lane, pick(1).session, pick(2).number);
            let shim = Shim { original: shim.original.filter(|_| !same[3]), ..shim };
            let mut bytes = [0; RESENT_LEN];
            shim.write(&mut bytes);
            let head = bytes.first_chunk().expect("a shim");
            let place = (shim.lane, shim.session, shim.number);
            let is_it = place == (pick(0).lane, pick(1).session, pick(2).number);
            prop_assert_eq!(next.is(head), is_it && shim.original.is_none());
            if next.is(head) {
                prop_assert_eq!(Next::order(head), Some(shim.order()));
                let is_behind = |(lane, number): (Lane, WireNumber)| {
                    lane == shim.lane && (number.0.wrapping_sub(shim.number.0) as i32) < 0
                };
                prop_assert_eq!(next.is_on_one_lane(head), shim.predecessor.is_none_or(is_behind));
            }
        }
    }

    /// R-TUN-1: a number of a predecessor that there is not.
    #[test]
    fn a_next_shim_that_contradicts_itself_is_not_read() {
        let next = Next::new(Lane::new(0).expect("a lane"), Session::new(1), WireNumber(7));
        let head = |before| [0x20, 0, NO_LANE, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, before];
        for before in [0, 3] {
            assert!(next.is(&head(before)));
            assert_eq!(Next::order(&head(before)).is_some(), before == 0);
            assert_eq!(next.is_on_one_lane(&head(before)), before == 0);
            assert_eq!(Shim::read(&head(before)).is_ok(), before == 0);
        }
    }

    #[test]
    fn byte_for_byte() {
        let place = |lane, number| (Lane::new(lane).expect("a lane"), WireNumber(number));
        let (lane, number) = place(3, 0x1112_1314);
        let shim = Shim {
            lane,
            number,
            session: Session::new(0x0102_0304),
            predecessor: Some(place(4, 0x2122_2324)),
            original: Some(place(5, 0x3132_3334)),
            is_kept: false,
            clear: 0x12,
        };
        let mut bytes = [0; RESENT_LEN];
        shim.write(&mut bytes);
        #[rustfmt::skip]
        assert_eq!(bytes, [
            0x21, 3, 4, 0x91, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
            5, 0, 0, 0, 0x31, 0x32, 0x33, 0x34,
        ]);
    }
}
