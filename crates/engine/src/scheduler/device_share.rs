//! Which part of what is read from files comes from the device: the page cache answers the rest, and uses nothing of it.

use std::time::Duration;

use super::estimator::Usage;

/// It is looked at so often: the system takes its time to tell.
pub const SHARE_EVERY: Duration = Duration::from_millis(100);

/// Bytes read so far, of files that the page cache may answer for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// By the store, from files.
    pub files: u64,
    /// By this process, from devices.
    pub device: u64,
}

/// What is remembered of it: the part, and what clients have used by it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceShare {
    share: f64,
    looked: Option<(Duration, Option<Reads>)>,
    before: Usage,
    counted: Usage,
}

impl Default for DeviceShare {
    fn default() -> DeviceShare {
        DeviceShare { share: 1.0, looked: None, before: Usage::default(), counted: Usage::default() }
    }
}

impl DeviceShare {
    /// The counters as far as they are of the device. `reads` is asked now and then; `None` where nobody tells, or nothing comes from the
    /// page cache: then all of it is the device's.
    pub fn count(&mut self, now: Duration, used: &Usage, reads: impl FnOnce() -> Option<Reads>) -> Usage {
        if self.looked.is_none_or(|(at, _)| now.saturating_sub(at) >= SHARE_EVERY) {
            self.look(now, reads());
        }
        let grown = used.since(&self.before);
        self.before = *used;
        let part = |bytes: u64| (bytes as f64 * self.share) as u64;
        let read = self.counted.client_read_bytes + part(grown.client_read_bytes);
        let fills = self.counted.cache_fill_bytes + part(grown.cache_fill_bytes);
        let on_disk = self.counted.cache_fill_bytes_on_disk + part(grown.cache_fill_bytes_on_disk);
        self.counted = Usage {
            client_read_bytes: read,
            cache_fill_bytes: fills,
            cache_fill_bytes_on_disk: on_disk,
            ..*used
        };
        self.counted
    }

    fn look(&mut self, now: Duration, reads: Option<Reads>) {
        let before = self.looked.and_then(|(_, before)| before);
        self.share = match (before, reads) {
            (Some(before), Some(reads)) if reads.files > before.files => {
                let (device, files) =
                    (reads.device.saturating_sub(before.device), reads.files - before.files);
                (device as f64 / files as f64).min(1.0)
            }
            (_, Some(_)) => self.share,
            (_, None) => 1.0,
        };
        self.looked = Some((now, reads));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1000;

    fn used(read: u64) -> Usage {
        Usage {
            client_read_bytes: read,
            cache_fill_bytes_on_disk: 2 * read,
            log_bytes: read,
            ..Usage::default()
        }
    }

    /// Of what is read from then on, by what came in the time before.
    #[test]
    fn what_the_page_cache_answers_is_nobody_s_use_of_the_device() {
        let mut share = DeviceShare::default();
        let at = |tenth: u32| SHARE_EVERY * tenth;
        let told = |files, device| move || Some(Reads { files, device });
        let read = |usage: Usage| (usage.client_read_bytes, usage.cache_fill_bytes_on_disk, usage.log_bytes);
        // Nothing is known at first.
        assert_eq!(read(share.count(at(0), &used(KB), told(KB, 0))), (KB, 2 * KB, KB));
        assert_eq!(read(share.count(at(1), &used(2 * KB), told(5 * KB, KB))), (1250, 2500, 2 * KB));
        // Not asked in between.
        assert_eq!(share.count(at(1), &used(3 * KB), || panic!()).client_read_bytes, 1500);
        // Where nothing was read, as before; readahead may bring in more than was asked for.
        assert_eq!(share.count(at(2), &used(3 * KB), told(5 * KB, KB)).client_read_bytes, 1500);
        assert_eq!(share.count(at(3), &used(4 * KB), told(6 * KB, 9 * KB)).client_read_bytes, 2500);
        assert_eq!(share.count(at(4), &used(8 * KB), told(10 * KB, 9 * KB)).client_read_bytes, 2500);
        // Nobody tells any more.
        assert_eq!(share.count(at(5), &used(9 * KB), || None).client_read_bytes, 3500);
    }
}
