//! The file: opening it, refusing what is not ours, keeping it small, and saying who holds it up.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::tables::{DAMAGED, SCHEMA, SINCE};
use crate::engine::{LAYOUT, private};
use crate::error::{Absence, Error, Refusal, Result};

/// "qrgt", so that other programs' files are recognised as such.
const APPLICATION: i64 = 0x7172_6774;
/// The log is cut back to this when it has been written into the file.
const LOG_BYTES: i64 = 16 * 1024 * 1024;
/// How long to wait for the lock before the caller is told, and tries again.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// How often to try again to open a file whose lock others hold.
const CONNECT_TRIES: u32 = 10;

/// Which file, and how much a power cut may take.
#[derive(Debug, Clone)]
pub struct Database {
    pub path: PathBuf,
    /// Wait for the disk at every commit.
    pub full: bool,
}

impl Database {
    /// On a machine that is busy, or while others create the same file, the lock may take longer than one wait.
    pub(super) fn connect(&self) -> Result<Connection> {
        let mut tries = 0;
        loop {
            match self.try_connect() {
                Err(error) if error.is_away() && tries < CONNECT_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
                connected => return connected,
            }
        }
    }

    fn try_connect(&self) -> Result<Connection> {
        let open = || -> rusqlite::Result<Connection> {
            let flags =
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = Connection::open_with_flags(&self.path, flags)?;
            connection.busy_handler(Some(wait))?;
            connection.set_prepared_statement_cache_capacity(64);
            Ok(connection)
        };
        self.create()?;
        let connection = open().map_err(|error| refuse(self, &error))?;
        self.prepare(&connection)?;
        Ok(connection)
    }

    /// Where the file is; an error, if there is none.
    pub fn find(&self) -> Result<PathBuf> {
        std::fs::canonicalize(&self.path).map_err(|error| Error::Refused {
            store: self.shown(),
            refusal: Refusal::Other,
            reason: match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such file".into(),
                _ => error.to_string(),
            },
            fix: "check the path; a queue is created when its first node starts or someone pushes",
        })
    }

    /// Opens the file for reading only, and creates nothing. None: it is empty.
    pub(super) fn open_to_look(&self) -> Result<Option<Connection>> {
        let refused = |reason: &str, fix| Error::Refused {
            store: self.shown(),
            refusal: Refusal::Other,
            reason: reason.into(),
            fix,
        };
        let path = self.find()?;
        // SQLite would put a log beside the file, and could not remove it. Where there is none, nobody has the file open.
        let uri = format!(
            "file:{}?mode=ro{}",
            encoded(&path),
            if self.beside("-wal").exists() {
                ""
            } else {
                "&immutable=1"
            }
        );
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_with_flags(&uri, flags)?;
            connection.busy_handler(Some(wait))?;
            Ok(connection)
        };
        let connection = open().map_err(|error| refuse(self, &error))?;
        let Some(layout) = self.layout(&connection)? else {
            return Ok(None);
        };
        let has = "SELECT count(*) FROM sqlite_schema WHERE name = 'damaged'";
        let has_all = connection.query_row(has, [], |row| row.get::<_, i64>(0));
        if layout < LAYOUT.cast_signed() || has_all.map_err(|error| refuse(self, &error))? == 0 {
            return Err(refused(
                "it was written by an older queenright",
                "start a copy on it once, which brings it up to date",
            ));
        }
        Ok(Some(connection))
    }

    /// Only its owner may read a new file. What SQLite puts beside it has the mode of the file.
    fn create(&self) -> Result<()> {
        private::refuse_link_of_others(&self.path).map_err(|error| Error::Refused {
            store: self.shown(),
            refusal: Refusal::Other,
            reason: error.to_string(),
            fix: "choose another file",
        })?;
        // One that is there stays as it is; what else is wrong SQLite meets as well, and says.
        let _ = private::create(&self.path);
        Ok(())
    }

    /// Checks that the file is ours, and creates what is missing. Others may do the same at this moment.
    fn prepare(&self, connection: &Connection) -> Result<()> {
        self.layout(connection)?;
        let synchronous = if self.full { "FULL" } else { "NORMAL" };
        let pragmas = format!(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             PRAGMA journal_size_limit = {LOG_BYTES}; PRAGMA temp_store = MEMORY;"
        );
        // Whoever changes the mode of a new file makes others fail at once, without waiting.
        let mut tries = 0;
        while let Err(error) = connection.execute_batch(&pragmas) {
            tries += 1;
            if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || tries > 100 {
                return Err(refuse(self, &error));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let batch = |sql: &str| connection.execute_batch(sql).map_err(|error| refuse(self, &error));
        batch("BEGIN IMMEDIATE")?;
        match self.layout(connection)? {
            Some(layout) => {
                let lacks = SINCE.iter().skip(usize::try_from(layout - 1).unwrap_or(0));
                for statements in lacks {
                    batch(statements)?;
                }
            }
            None => batch(&format!("{SCHEMA} PRAGMA application_id = {APPLICATION};"))?,
        }
        batch(&format!("PRAGMA user_version = {LAYOUT};"))?;
        batch(DAMAGED)?;
        batch("COMMIT")
    }

    /// The layout of the tables, if there are any; an error, if they are not ours.
    fn layout(&self, connection: &Connection) -> Result<Option<i64>> {
        let number = |sql: &str| {
            connection
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .map_err(|error| refuse(self, &error))
        };
        let refused = |reason, fix| {
            let store = self.shown();
            Err(Error::Refused {
                store,
                refusal: Refusal::Other,
                reason,
                fix,
            })
        };
        if number("SELECT count(*) FROM sqlite_schema")? == 0 {
            return Ok(None);
        }
        if number("PRAGMA application_id")? != APPLICATION {
            return refused("it is another program's database".into(), "choose another file");
        }
        let layout = number("PRAGMA user_version")?;
        if layout > LAYOUT.cast_signed() {
            let reason = format!("it was written by a newer queenright (layout {layout}, this one knows {LAYOUT})");
            return refused(reason, "upgrade this program");
        }
        Ok(Some(layout))
    }

    /// Gives free pages back, and cuts the log once it is long. What fails is tried again at the next beat.
    pub(super) fn tidy(&self, connection: &Connection, pages: u32) {
        let free = connection.pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0));
        if free.is_ok_and(|free| free > 4 * i64::from(pages)) {
            let _ = connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})"));
        }
        let log = std::fs::metadata(self.beside("-wal")).map_or(0, |log| log.len());
        if log > 4 * LOG_BYTES.unsigned_abs() {
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }

    pub(super) fn shown(&self) -> String {
        format!("the database {}", self.path.display())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// A path as part of a URI.
fn encoded(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => out.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

/// Short sleeps: a transaction takes microseconds.
fn wait(tries: i32) -> bool {
    let tries = u32::try_from(tries).unwrap_or(0);
    // 100 µs while it is likely to pass at once, 1 ms after that.
    let (pause, waited) = if tries < 100 {
        (Duration::from_micros(100), Duration::from_micros(100) * tries)
    } else {
        (
            Duration::from_millis(1),
            Duration::from_millis(10) + Duration::from_millis(1) * (tries - 100),
        )
    };
    std::thread::sleep(pause);
    waited < LOCK_WAIT
}

/// Errors after which the same call may be repeated are told from those that need someone to act.
pub(super) fn refuse(database: &Database, error: &rusqlite::Error) -> Error {
    let store = database.shown();
    let reason = error.to_string();
    let fix = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let holder = holder(&database.beside("-shm")).map_or(String::new(), |pid| format!(" by process {pid}"));
            return Error::Away {
                store,
                absence: Absence::Unable,
                reason: format!("it is locked{holder}; if that process is stopped, let it go on or end it"),
            };
        }
        Some(ErrorCode::DiskFull) => {
            return Error::Away {
                store,
                absence: Absence::Unable,
                reason: "the disk is full; make room, nothing is lost".into(),
            };
        }
        Some(ErrorCode::NotADatabase) => "it is no SQLite database; choose another file",
        Some(ErrorCode::DatabaseCorrupt) => "restore it from a copy, or choose another file",
        Some(ErrorCode::ReadOnly) => "make the file and its directory writable",
        Some(ErrorCode::CannotOpen) => "check that the directory exists and is writable",
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => {
            return Error::Away {
                store,
                absence: Absence::Unable,
                reason,
            };
        }
        _ => {
            return Error::Protocol {
                detail: format!("{store}: {reason}"),
            };
        }
    };
    Error::Refused {
        store,
        refusal: Refusal::Other,
        reason,
        fix,
    }
}

/// The process that holds the write lock, as far as the system tells.
fn holder(shared: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(shared).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // "1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 120 120": the write lock of a log is byte 120 of the shared memory.
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (pid, place) = (fields.get(4)?, fields.get(5)?);
        let from: u64 = fields.get(6)?.parse().ok()?;
        let to: u64 = fields.get(7)?.parse().ok()?;
        let ours = place.rsplit(':').next()? == inode && fields.get(3) == Some(&"WRITE") && (from..=to).contains(&120);
        ours.then(|| pid.parse().ok()).flatten()
    })
}

/// Milliseconds since the machine started, asleep or awake: the same for every process on it, and never set back.
pub(super) fn uptime_ms() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    let (seconds, nanos) = (
        u64::try_from(time.tv_sec).unwrap_or(0),
        u64::try_from(time.tv_nsec).unwrap_or(0),
    );
    seconds * 1000 + nanos / 1_000_000
}
