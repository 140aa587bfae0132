//! Boxes with several workers and tunnels that are told to stop.

use super::*;

/// The end of a worker with several tunnels is that of all of them.
#[test]
fn workers_that_stop_leave_all_sessions() {
    let scene = scenes(false).nth(3).expect("two workers and one");
    assert_eq!(scene.workers, [2, 1]);
    let mut world = World::new(scene);
    world.pass(Span::from_millis(30), 2);
    assert!(world.are_up());
    for one in &world.gateways[1].workers {
        one.worker.parts.stop.store(true, Relaxed);
    }
    world.pass(HOUSEKEEPING * 3, 2);
    let up: Vec<_> = world.gateways.iter().map(|gateway| gateway.sum(TunnelIo::Up)).collect();
    assert_eq!(up, [0, 0]);
    let now = world.clock.now();
    assert!(world.gateways[1].workers.iter_mut().all(|one| one.worker.may_leave(now)));
}

/// With `ethernet` one worker polls the WAN port for all: it goes on while another one still holds a frame.
#[test]
fn workers_that_stop_end_together() {
    let scene = scenes(false).find(|scene| scene.workers == [1, 4]);
    let mut world = World::new(Scene { repairs_lan: true, ..scene.expect("one and four workers") });
    world.pass(Span::from_millis(30), 3);
    assert!(world.are_up());
    // The LAN port takes nothing of a worker that does not poll the WAN.
    let (polls_wan, is_slow) = (1, 2);
    world.gateways[1].workers[is_slow].tx[0].accept(0);
    world.pass(Span::from_millis(1), 3);
    for one in &world.gateways[1].workers {
        one.worker.parts.stop.store(true, Relaxed);
    }
    let left = |world: &mut World| {
        let now = world.clock.now();
        for (n, one) in world.gateways[1].workers.iter_mut().enumerate() {
            if !world.stand.contains(&(1, n)) && one.worker.may_leave(now) {
                world.stand.push((1, n));
            }
        }
        world.stand.len()
    };
    for _ in 0..20 {
        world.pass(Span::from_millis(1), 0);
        assert_eq!(left(&mut world), 0, "worker {is_slow} holds frames, {polls_wan} polls for it");
    }
    world.gateways[1].workers[is_slow].tx[0].accept(usize::MAX);
    world.pass(Span::from_millis(1), 0);
    for _ in 0..4 {
        left(&mut world);
    }
    assert_eq!(world.stand.len(), 4, "before the time is over");
    assert_eq!(world.came, world.sent(), "nothing is lost");
}
