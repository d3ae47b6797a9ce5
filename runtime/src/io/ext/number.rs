//! Numbers as bytes, for the methods that read and write them.

/// A number of a fixed count of bytes. It is public because the futures that read and write numbers are. It
/// has no other use.
pub trait Number: Copy {
    /// An array of the number's bytes.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Copy + std::fmt::Debug;
    /// An array of zeros.
    const ZERO: Self::Bytes;
    /// Makes the number from bytes with the most significant byte first.
    fn from_be(bytes: Self::Bytes) -> Self;
    /// Makes the number from bytes with the least significant byte first.
    fn from_le(bytes: Self::Bytes) -> Self;
}

macro_rules! number {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            type Bytes = [u8; size_of::<$ty>()];
            const ZERO: Self::Bytes = [0; size_of::<$ty>()];

            #[inline]
            fn from_be(bytes: Self::Bytes) -> Self {
                Self::from_be_bytes(bytes)
            }

            #[inline]
            fn from_le(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}

number!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 f32 f64);

/// Passes the methods of every number that has a byte order to the macro `$methods`: type, description, and
/// the names of the methods that read and write. Each big-endian name comes first.
macro_rules! for_each_number {
    ($methods:ident) => {
        $methods! {
            u16, "an unsigned number of 16 bits", read_u16 read_u16_le, write_u16 write_u16_le;
            i16, "a signed number of 16 bits", read_i16 read_i16_le, write_i16 write_i16_le;
            u32, "an unsigned number of 32 bits", read_u32 read_u32_le, write_u32 write_u32_le;
            i32, "a signed number of 32 bits", read_i32 read_i32_le, write_i32 write_i32_le;
            u64, "an unsigned number of 64 bits", read_u64 read_u64_le, write_u64 write_u64_le;
            i64, "a signed number of 64 bits", read_i64 read_i64_le, write_i64 write_i64_le;
            u128, "an unsigned number of 128 bits", read_u128 read_u128_le, write_u128 write_u128_le;
            i128, "a signed number of 128 bits", read_i128 read_i128_le, write_i128 write_i128_le;
            f32, "a floating-point number of 32 bits", read_f32 read_f32_le, write_f32 write_f32_le;
            f64, "a floating-point number of 64 bits", read_f64 read_f64_le, write_f64 write_f64_le;
        }
    };
}

pub(super) use for_each_number;
