//! Whatever is typed after the program's name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use queenright::app::args::{self, Stop};

const WORDS: [&[u8]; 22] = [
    b"\nstart",
    b"\nget-errors",
    b"\ngetErrors",
    b"\nstatus",
    b"\ndemo",
    b"\nhelp",
    b"\n--help",
    b"\n--url\n",
    b"\n--url=redis://u:p@h:1/2",
    b"\n--pass\n",
    b"\n--queue\n",
    b"\n--limit\n",
    b"\n--messages\n",
    b"\n--interval=500ms",
    b"\n--work\n0..1s",
    b"\n--error-rate\n",
    b"\n--log=json",
    b"\n--json",
    b"\n--keep",
    b"\n-v",
    b"\n--",
    b"\n=",
];

#[test]
fn arguments_are_understood_or_refused_in_one_harmless_line() {
    super::fuzz("command_line", &WORDS, |input| {
        let mut arguments: Vec<OsString> = vec!["queenright".into()];
        let typed = input.split(|&byte| byte == b'\n').skip(1);
        arguments.extend(typed.map(|typed| {
            // An argument cannot contain a zero byte.
            let bytes: Vec<u8> = typed.iter().copied().filter(|&byte| byte != 0).collect();
            OsString::from_vec(bytes)
        }));
        match args::parse(arguments.clone()) {
            Ok(asked) => {
                let again = args::parse(arguments).expect("the same once more");
                assert_eq!(asked, again);
                format!("{:?}", std::mem::discriminant(&asked.command))
            }
            Err(Stop::Show(text)) => {
                assert!(!text.contains('\x1b'), "{text:?}");
                "help".into()
            }
            Err(Stop::Usage(usage)) => {
                let text = usage.to_string();
                assert!(!text.is_empty());
                assert!(!text.chars().any(char::is_control), "{text:?}");
                text.split(' ').take(2).collect()
            }
        }
    });
}
