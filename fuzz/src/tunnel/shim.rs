//! Shims and control messages: any bytes, the messages under a tag that is right.

use common::control::{Keys, TAG_LEN};
use tunnel::message::{self, Reject};
use tunnel::shim::{Content, LEN, Shim};

/// Bytes in front of a message's body, and where its length stands among them.
const PREFIX: usize = 40;
const LEN_AT: usize = 12;

/// `data` is a shim and what follows it.
pub fn run(data: &[u8]) {
    let keys = Keys::unkeyed_lab();
    match Shim::read(data) {
        Ok(Content::Frame(shim)) => {
            let mut again = vec![0; shim.wire_len()];
            shim.write(&mut again);
            assert_eq!(data[..again.len()], again, "there is one way to write a shim");
        }
        Ok(Content::Repair(shim)) => {
            let mut again = [0; LEN];
            shim.write(&mut again);
            assert_eq!(data[..LEN], again, "there is one way to write a shim");
        }
        Ok(Content::Control) | Err(_) => {}
    }
    let mut body = data[..data.len().min(1_500)].to_vec();
    body.resize(body.len().max(PREFIX), 0);
    let len = body.len() as u16;
    body[LEN_AT..LEN_AT + 2].copy_from_slice(&len.to_be_bytes());
    let sealed = [&body[..], &keys.seal_tunnel(&body)].concat();
    match message::read(&sealed, &keys) {
        Ok((header, message)) => {
            let mut again = vec![0xaa; message::wire_len(&message)];
            message::write(&header, &message, &keys, &mut again);
            assert_eq!(again, sealed, "there is one way to write a message");
        }
        Err(reject) => {
            assert!(matches!(reject, Reject::Invalid | Reject::Version), "{reject:?}");
        }
    }
    for cut in [sealed.len() - 1, sealed.len() - TAG_LEN, PREFIX] {
        assert!(message::read(&sealed[..cut], &keys).is_err());
    }
    let mut forged = sealed.clone();
    *forged.last_mut().expect("a tag") ^= 1;
    let found = message::read(&forged, &keys);
    assert!(matches!(found, Err(Reject::BadTag | Reject::Version)), "{found:?}");
}
