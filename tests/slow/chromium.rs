//! Chromium without a window, driven over the `DevTools` protocol. It opens pages from disk, in real time: tests wait for
//! what they expect, and never for a while.
//!
//! Protocol: <https://chromedevtools.github.io/devtools-protocol/>. Messages are JSON, each ends with a zero byte.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::skip;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long an answer may take before the test fails. A machine that is busy with other tests is slow.
const PATIENCE: Duration = Duration::from_mins(2);

/// A page in a browser of its own.
pub struct Page {
    browser: Child,
    commands: RefCell<ChildStdin>,
    messages: Receiver<Value>,
    /// Which messages belong to the page.
    session: String,
    last_command: Cell<u64>,
    events: RefCell<Vec<Value>>,
    folder: TempDir,
}

/// How a page is opened.
#[derive(Default)]
pub struct Options<'a> {
    /// The part of the address behind `#`.
    pub fragment: &'a str,
    /// Whether scripts may not run.
    pub without_script: bool,
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        skip("no chromium is installed, so no page is opened");
    }
    found
}

impl Page {
    /// Opens a page and waits until it is loaded and its script has drawn. `None`: there is no browser.
    pub fn open(html: &str, options: &Options<'_>) -> Option<Self> {
        let program = installed()?;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("page.html");
        std::fs::write(&file, html).expect("written");
        // The browser reads commands from descriptor 3 and answers to descriptor 4.
        let mut browser = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the shell starts");
        let commands = RefCell::new(browser.stdin.take().expect("a pipe"));
        let answers = BufReader::new(browser.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("JSON from the browser");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut page = Self {
            browser,
            commands,
            messages,
            session: String::new(),
            last_command: Cell::new(0),
            events: RefCell::default(),
            folder,
        };
        let target = page.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = page.call("Target.attachToTarget", &target);
        session["sessionId"].as_str().expect("a session").clone_into(&mut page.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.width(1000);
        if options.without_script {
            page.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
        }
        page.call(
            "Page.navigate",
            &json!({ "url": format!("file://{}#{}", file.display(), options.fragment) }),
        );
        page.until("location.protocol === 'file:' && document.readyState === 'complete'");
        if !options.without_script {
            page.until("'drawn' in document.documentElement.dataset || !document.querySelector('#data')");
        }
        Some(page)
    }

    /// Sets the width of the window, in CSS pixels.
    pub fn width(&self, width: u32) {
        let size = json!({ "width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets the colours that the system prefers: `light` or `dark`.
    pub fn theme(&self, theme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": theme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// The value of a JavaScript expression. A promise is waited for.
    pub fn value(&self, expression: &str) -> Value {
        let mut answer = self.call(
            "Runtime.evaluate",
            &json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
        );
        assert!(answer.get("exceptionDetails").is_none(), "{expression}\n{answer:#}");
        answer["result"]["value"].take()
    }

    /// The text that a JavaScript expression returns.
    pub fn text(&self, expression: &str) -> String {
        match self.value(expression) {
            Value::String(text) => text,
            other => panic!("{expression} is no text: {other}"),
        }
    }

    /// Waits until a JavaScript expression is true.
    pub fn until(&self, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")) != Value::Bool(true) {
            if began.elapsed() > PATIENCE {
                let page =
                    self.value("location.href + '\\n' + document.documentElement.outerHTML.slice(0, 4000)");
                panic!("never true: {expression}\n{page}\n{:#?}", self.events.borrow());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A picture of the window, as PNG.
    pub fn picture(&self) -> Vec<u8> {
        self.file("Page.captureScreenshot")
    }

    /// The printed page, as PDF.
    pub fn printed(&self) -> Vec<u8> {
        self.file("Page.printToPDF")
    }

    fn file(&self, method: &str) -> Vec<u8> {
        let answer = self.call(method, &json!({}));
        STANDARD.decode(answer["data"].as_str().expect("a file")).expect("base64")
    }

    /// The browser had nothing to complain about, and the page asked for nothing but itself.
    pub fn assert_quiet(&self) {
        // All events that led here come before this answer.
        self.value("1");
        let events = self.events.borrow();
        let of = |method: &'static str| {
            events.iter().filter(move |event| event["method"].as_str() == Some(method))
        };
        let complaints: Vec<_> = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Page.javascriptDialogOpening",
        ]
        .into_iter()
        .flat_map(of)
        .collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let own = format!("file://{}", self.folder.path().join("page.html").display());
        let asked: Vec<_> = of("Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str())
            .filter(|url| *url != own && !url.starts_with("data:"))
            .collect();
        assert_eq!(asked, Vec::<&str>::new());
        assert!(of("Network.requestWillBeSent").next().is_some(), "the page itself is a request");
    }

    fn next(&self, awaited: &str) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no answer to {awaited}: {error}"))
    }

    fn call(&self, method: &str, parameters: &Value) -> Value {
        let number = self.last_command.get() + 1;
        self.last_command.set(number);
        let mut command = json!({ "id": number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = Value::from(self.session.as_str());
        }
        let mut commands = self.commands.borrow_mut();
        commands.write_all(command.to_string().as_bytes()).expect("the browser listens");
        commands.write_all(b"\0").expect("the browser listens");
        loop {
            let mut message = self.next(method);
            if message["id"] == number {
                assert!(message.get("error").is_none(), "{method}: {message:#}");
                return message["result"].take();
            }
            self.events.borrow_mut().push(message);
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It takes its own processes with it if it ends itself.
        let close = json!({ "id": 0, "method": "Browser.close" }).to_string();
        if self.commands.borrow_mut().write_all(format!("{close}\0").as_bytes()).is_err() {
            _ = self.browser.kill();
        }
        while self.messages.recv_timeout(Duration::from_secs(10)).is_ok() {}
        _ = self.browser.kill();
        _ = self.browser.wait();
    }
}
