//! Where a message has to go, before anybody reads it.

use super::*;

/// Whatever a message is, and whoever made it, it can be brought to its flow.
#[test]
fn what_a_message_is_about_can_be_told_without_a_key() {
    let about = |frame: &[u8]| about(frame, &parse(frame).unwrap(), DEFAULT_OPCODE);
    for (message, goes_back) in [
        (Message::Sync(sync()), false),
        (Message::Fetch(fetch(3)), false),
        (Message::Status(status(2)), true),
        (Message::Absent(fetch(3)), true),
    ] {
        let mut frame = frame_of(&header(), &message, &keys(), &ip_headers(true));
        assert_eq!(about(&frame), Some((0x51_5253, goes_back)), "{message:?}");
        let body = frame.len() - 4 - body_len(&message);
        frame[body + 5] = 9;
        assert_eq!(about(&frame), None, "of no type that is known");
        frame[body + 5] = 1;
        frame[body + 44] = 1;
        assert_eq!(about(&frame), None, "that is no QPN");
        frame[body] = b'l';
        assert_eq!(about(&frame), None, "not ours");
    }
    assert_eq!(about(&sealed(&[&MAGIC[..], &[1, 1, 0, 0]].concat(), &keys())), None, "too short");
}
