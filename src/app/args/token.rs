//! The secret that the dashboard asks for.

use subtle::ConstantTimeEq;

/// A shorter token could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 1024;

/// Who gives it may use the dashboard. Never shown.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() < TOKEN_BYTES_MIN || text.len() > TOKEN_BYTES_MAX {
            return Err(format!(
                "the token must have {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} characters; make one with: \
                 head -c 24 /dev/urandom | base64"
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token must be of visible ASCII characters, without spaces".into());
        }
        Ok(Self(text.into()))
    }

    /// For those who look for it in what others print.
    pub(in crate::app) fn expose(&self) -> &str {
        &self.0
    }

    pub(in crate::app) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_long_visible_word() {
        assert!(Token::new(" 0123456789abcdef\n").is_ok());
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdé…"] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
    }
}
