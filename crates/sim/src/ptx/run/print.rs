//! Formats the text of `vprintf`.

/// Formats like C's `printf` and returns the text and the number of arguments used. `next(bytes, is_text)` returns the bits of the next
/// argument of this size and, if `is_text`, the string it points to.
pub(crate) fn formatted<E>(format: &[u8], mut next: impl FnMut(u64, bool) -> Result<(u64, Vec<u8>), E>) -> Result<(String, u64), E> {
    let mut text = String::new();
    let mut count = 0;
    let mut rest = format.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            text.push(char::from(byte));
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = rest.next_if(|byte| b"-+ #0".contains(byte)) {
            flags.push(char::from(flag));
        }
        let width = match number(&mut rest) {
            Some(FormatNumber::Digits(digits)) => digits,
            Some(FormatNumber::Argument) => {
                count += 1;
                next(4, false)?.0 as u32 as usize
            }
            None => 0,
        };
        let precision = match rest.next_if_eq(&b'.').map(|_| number(&mut rest)) {
            Some(Some(FormatNumber::Digits(digits))) => Some(digits),
            Some(Some(FormatNumber::Argument)) => {
                count += 1;
                Some(next(4, false)?.0 as u32 as usize)
            }
            Some(None) => Some(0),
            None => None,
        };
        let mut long = false;
        while let Some(length) = rest.next_if(|byte| b"hlzjtL".contains(byte)) {
            long |= b"lzjt".contains(&length);
        }
        let Some(conversion) = rest.next() else { break };
        if conversion == b'%' {
            text.push('%');
            continue;
        }
        count += 1;
        let size = match conversion {
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' if !long => 4,
            b'c' => 4,
            _ => 8,
        };
        let (bits, string) = next(size, conversion == b's')?;
        let signed = if size == 8 { bits as i64 } else { i64::from(bits as u32 as i32) };
        let double = f64::from_bits(bits);
        let plain = match conversion {
            b'd' | b'i' => signed.to_string(),
            b'u' => bits.to_string(),
            b'x' => format!("{}{bits:x}", if flags.contains('#') { "0x" } else { "" }),
            b'X' => format!("{}{bits:X}", if flags.contains('#') { "0X" } else { "" }),
            b'o' => format!("{bits:o}"),
            b'p' => format!("{bits:#x}"),
            b'c' => char::from(bits as u8).to_string(),
            b's' => {
                let length = precision.unwrap_or(usize::MAX).min(string.len());
                String::from_utf8_lossy(&string[..length]).into_owned()
            }
            b'f' | b'F' => format!("{double:.*}", precision.unwrap_or(6)),
            b'e' | b'E' => scientific(double, precision.unwrap_or(6), conversion == b'E'),
            b'g' | b'G' => format!("{double}"),
            other => format!("%{}", char::from(other)),
        };
        let is_number = !matches!(conversion, b's' | b'c');
        let signed_text = if flags.contains('+') && is_number && !plain.starts_with('-') { format!("+{plain}") } else { plain };
        let padding = width.min(1 << 16).saturating_sub(signed_text.len());
        if flags.contains('-') {
            text.push_str(&signed_text);
            text.extend(std::iter::repeat_n(' ', padding));
        } else if flags.contains('0') && is_number {
            let (sign, digits) = signed_text.split_at(usize::from(signed_text.starts_with(['-', '+'])));
            text.push_str(sign);
            text.extend(std::iter::repeat_n('0', padding));
            text.push_str(digits);
        } else {
            text.extend(std::iter::repeat_n(' ', padding));
            text.push_str(&signed_text);
        }
    }
    Ok((text, count))
}

/// A width or a precision in a format.
enum FormatNumber {
    Digits(usize),
    /// `*`: the value is the next argument.
    Argument,
}

/// Parses a width or a precision.
fn number(rest: &mut std::iter::Peekable<impl Iterator<Item = u8>>) -> Option<FormatNumber> {
    if rest.next_if_eq(&b'*').is_some() {
        return Some(FormatNumber::Argument);
    }
    let mut digits: Option<usize> = None;
    while let Some(byte) = rest.next_if(u8::is_ascii_digit) {
        digits = Some(digits.unwrap_or(0).saturating_mul(10).saturating_add(usize::from(byte - b'0')));
    }
    digits.map(FormatNumber::Digits)
}

/// Formats like `%e`: an exponent with a sign and at least two digits.
fn scientific(value: f64, precision: usize, upper: bool) -> String {
    let text = format!("{value:.precision$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}{}{sign}{digits:0>2}", if upper { 'E' } else { 'e' })
}

#[cfg(test)]
mod tests {
    use super::formatted;

    fn print(format: &str, arguments: &[u64]) -> String {
        let mut arguments = arguments.iter();
        let text = formatted::<()>(format.as_bytes(), |_, _| Ok((*arguments.next().unwrap_or(&0), b"word".to_vec())));
        text.map(|(text, _)| text).unwrap_or_default()
    }

    #[test]
    fn as_c_does() {
        assert_eq!(print("%d|%5d|%-5d|%05d|%+d", &[0xffff_ffff, 7, 7, 0xffff_fff9, 3]), "-1|    7|7    |-0007|+3");
        assert_eq!(print("%u %x %#X %c %s %%", &[0xffff_ffff, 255, 255, 65, 0]), "4294967295 ff 0XFF A word %");
        assert_eq!(print("%f %.2f %e", &[1.5f64.to_bits(), 2.0f64.to_bits(), 12345.678f64.to_bits()]), "1.500000 2.00 1.234568e+04");
        assert_eq!(print("%lld %*d", &[u64::MAX, 4, 9]), "-1    9");
    }
}
