//! The secrets that the dashboard asks for.

use subtle::ConstantTimeEq;

/// A shorter token could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 1024;

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Look at everything, change nothing.
    Read,
    /// Push messages, and nothing else.
    Push,
    /// Everything.
    Rule,
}

impl Right {
    #[must_use]
    pub fn includes(self, wanted: Self) -> bool {
        self == Self::Rule || self == wanted
    }

    /// The option that names a file with such a token.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Read => "--read-token-file",
            Self::Push => "--push-token-file",
            Self::Rule => "--token-file",
        }
    }

    /// The token, for people.
    #[must_use]
    pub fn token_name(self) -> &'static str {
        match self {
            Self::Read => "read token",
            Self::Push => "push token",
            Self::Rule => "token",
        }
    }
}

/// The tokens that are asked for, one for each right at most.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<(Right, Token)>);

impl Tokens {
    /// In the place of the one that was there.
    pub fn set(&mut self, right: Right, token: Token) {
        self.0.retain(|(other, _)| *other != right);
        self.0.push((right, token));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.0.iter().map(|(_, token)| token)
    }

    /// Two rights with one token: nobody could tell which was meant.
    #[must_use]
    pub fn twice(&self) -> Option<[Right; 2]> {
        let pairs = self
            .0
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.0[at + 1..].iter().map(move |other| (one, other)));
        let same = |((_, one), (_, other)): &(&(Right, Token), &(Right, Token))| one.is(other.expose());
        pairs
            .into_iter()
            .find(same)
            .map(|((one, _), (other, _))| [*one, *other])
    }

    /// What it lets its bearer do. All are compared, so that the time tells nothing.
    pub(in crate::app) fn right(&self, given: &str) -> Option<Right> {
        let fits = |found, (right, token): &(Right, Token)| if token.is(given) { Some(*right) } else { found };
        self.0.iter().fold(None, fits)
    }
}

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

    fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_its_right_and_none_has_two() {
        let token = |text: &str| Token::new(&text.repeat(16)).expect("a token");
        let mut tokens = Tokens::default();
        tokens.set(Right::Read, token("r"));
        tokens.set(Right::Push, token("p"));
        assert_eq!(tokens.right(&"p".repeat(16)), Some(Right::Push));
        assert_eq!(tokens.right(&"x".repeat(16)), None);
        assert_eq!(tokens.twice(), None);
        tokens.set(Right::Push, token("r"));
        assert_eq!(tokens.right(&"p".repeat(16)), None, "another took its place");
        assert_eq!(tokens.twice(), Some([Right::Read, Right::Push]));
        for (has, wants, may) in [
            (Right::Rule, Right::Read, true),
            (Right::Rule, Right::Push, true),
            (Right::Read, Right::Push, false),
            (Right::Push, Right::Read, false),
            (Right::Read, Right::Rule, false),
            (Right::Push, Right::Rule, false),
        ] {
            assert_eq!(has.includes(wants), may, "{has:?} {wants:?}");
        }
    }

    #[test]
    fn a_token_is_a_long_visible_word() {
        assert!(Token::new(" 0123456789abcdef\n").is_ok());
        for wrong in ["", "short", "0123456789 abcdef", "0123456789abcdé…"] {
            assert!(Token::new(wrong).is_err(), "{wrong}");
        }
    }
}
