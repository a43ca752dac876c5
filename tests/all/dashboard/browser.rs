//! Chromium, driven over WebDriver by Debian's chromedriver: as much of the protocol as the tests need.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use queenright::app::base64;
use serde_json::{Value, json};

use super::client::Ask;
use crate::fleet::PATIENCE;

/// A browser with a profile of its own. Ended when dropped.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    profile: tempfile::TempDir,
}

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

impl Browser {
    /// A headless one; why there is none, if it does not start.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a directory");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed: scripts/test does it");
        let mut said = BufReader::new(driver.stdout.take().expect("piped"));
        let port = port_said(&mut said);
        // It says little more, but must be able to.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let mut browser = Self {
            driver,
            address: format!("127.0.0.1:{port}"),
            session: String::new(),
            profile,
        };
        let data = format!("--user-data-dir={}", browser.profile.path().join("data").display());
        let mut options = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--disable-extensions",
            // Pages that were left would keep their streams for a while, and a browser has six connections to a server.
            "--disable-features=BackForwardCache", data,
        ]});
        let found = NAMES
            .iter()
            .map(|name| Path::new("/usr/bin").join(name))
            .find(|path| path.exists());
        if let Some(binary) = found {
            options["binary"] = json!(binary);
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let made = browser.call("POST", "/session", &wanted);
        browser.session = made["sessionId"].as_str().expect("a session").to_string();
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let ask = Ask::new(method, path).header("content-type", "application/json");
        let ask = if method == "GET" {
            ask
        } else {
            ask.body(body.to_string().as_bytes())
        };
        let told = ask.send(&self.address);
        assert_eq!(told.status, 200, "{method} {path}: {}", told.text());
        told.json()["value"].clone()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        // From elsewhere: another fragment alone would load nothing.
        self.ask("POST", "/url", &json!({"url": "about:blank"}));
        self.ask("POST", "/url", &json!({"url": url}));
    }

    /// Runs a script in the page, and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// A command of Chromium's own protocol.
    pub fn cdp(&self, command: &str, parameters: &Value) -> Value {
        self.ask(
            "POST",
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    /// Does something to an element once it can be seen. Tries again while the page is changing under it.
    fn act(&self, selector: &str, action: &str, body: &Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = format!(
                "const e = document.querySelector({selector:?}); return e !== null && e.checkVisibility() && !e.disabled"
            );
            self.wait_for(selector, &seen);
            let path = format!("/session/{}/element", self.session);
            let wanted = json!({"using": "css selector", "value": selector}).to_string();
            let post = |path: &str, body: &str| {
                let ask = Ask::new("POST", path).header("content-type", "application/json");
                ask.body(body.as_bytes()).send(&self.address)
            };
            let found = post(&path, &wanted).json();
            let id = found["value"]
                .as_object()
                .and_then(|found| found.values().next()?.as_str());
            let told = post(&format!("{path}/{}/{action}", id.unwrap_or("none")), &body.to_string());
            if told.status == 200 {
                return;
            }
            assert!(Instant::now() < deadline, "{action} {selector}: {}", told.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks as a mouse does: what is hidden or covered cannot be clicked.
    pub fn click(&self, selector: &str) {
        self.act(selector, "click", &json!({}));
    }

    pub fn write(&self, selector: &str, text: &str) {
        self.act(selector, "clear", &json!({}));
        self.act(selector, "value", &json!({"text": text}));
    }

    /// What a person reads there.
    pub fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({selector:?})?.innerText ?? ''"));
        text.as_str().unwrap_or_default().to_string()
    }

    /// Waits until a script returns something true, and returns it.
    pub fn wait_for(&self, what: &str, script: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.run(script);
            if !matches!(value, Value::Null | Value::Bool(false)) && value != 0 && value != "" {
                return value;
            }
            if Instant::now() >= deadline {
                let seen = self.run("return document.body.innerText.slice(0, 3000)");
                panic!(
                    "waited in vain for {what}; the page says\n{}",
                    seen.as_str().unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A screen of this size, light or dark.
    pub fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.cdp("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.cdp("Emulation.setEmulatedMedia", &media);
    }

    /// The screen as a PNG.
    pub fn picture(&self) -> Vec<u8> {
        let shot = self.ask("GET", "/screenshot", &Value::Null);
        base64::decode(shot.as_str().expect("a picture")).expect("base64")
    }
}

fn port_said(said: &mut impl BufRead) -> u16 {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(
            said.read_line(&mut line).expect("what it says") > 0,
            "chromedriver has ended"
        );
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim().trim_end_matches('.').parse().expect("a port");
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", "", &json!({}));
        } else if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            let _ = std::panic::catch_unwind(|| Ask::new("DELETE", &path).send(&self.address));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
