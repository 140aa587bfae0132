//! The reserve that own frames leave to RX, bulk allocation, headers in front of frames, threads with and
//! without a cache, the clock; and frames that outlive everything.

mod support;

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::frame::{Frame, Headroom, Pool, Shared};
use dpdk_sys_wrapper::{
    Eal, Huge, LcoreGuard, Mbuf, Mempool, PoolConfig, PoolHandle, STRIDE, SharedMbuf, allowed_cpus,
};
use support::{eal, frame, pool};

fn main() {
    let eal = eal(64);
    let wanted = support::config(64).huge;
    assert_eq!(eal.uses_hugepages(), wanted == Huge::Require);
    let frames = pool(&eal, 2047, 2048);
    assert_eq!((frames.size(), frames.available(), frames.in_use()), (2047, 2047, 0));

    the_reserve_is_left(&frames);
    lengths_have_a_limit(&frames);
    headers_go_into_the_headroom(&frames);
    only_registered_threads_have_a_cache(&eal);
    a_thread_can_be_pinned(&eal);
    frames_travel_between_threads(&eal, &frames);
    what_one_thread_frees_another_one_gets(&eal, &frames);
    the_clock_keeps_the_time_of_day(&eal);
    owners_are_counted(&frames);
    handles_are_freed_in_place(&eal, &frames);

    // A held frame keeps its memory after everything else is gone.
    let last = frame(&frames, 1000, 3).share();
    let copy = last.bytes().to_vec();
    drop((frames, eal));
    assert_eq!(last.bytes(), copy);
    drop(last);
    println!("ok");
}

/// Of several pools, more than are freed at once, with places that are empty and frames that others hold as well.
fn handles_are_freed_in_place(eal: &Eal, pool: &Mempool) {
    let config = PoolConfig {
        name: "second".into(),
        mbufs: 255,
        cache: 32,
        data_room: 2048,
        numa_node: None,
    };
    let second = Mempool::new(eal, &config).expect("a pool");
    let mut places: Vec<_> = (0..200)
        .map(|n| {
            let pool = if n % 50 < 20 { &second } else { pool };
            (n % 7 != 0).then(|| frame(pool, 100, n).share())
        })
        .collect();
    let (held, bytes): (Vec<_>, Vec<_>) = places[100..]
        .iter()
        .flatten()
        .step_by(5)
        .map(|handle| (handle.clone(), handle.bytes().to_vec()))
        .unzip();
    let there = places.iter().flatten().count();
    assert_eq!(SharedMbuf::release_some(&mut places), there);
    assert!(places.iter().all(Option::is_none));
    assert_eq!((pool.in_use() + second.in_use()) as usize, held.len());
    // The others may be used again.
    let others: Vec<_> = (0..100).map(|n| frame(&second, 100, n)).collect();
    for (handle, bytes) in held.iter().zip(&bytes) {
        assert_eq!((handle.owners(), handle.bytes()), (1, bytes.as_slice()));
    }
    drop(others);
    assert_eq!(SharedMbuf::release_some(&mut places), 0, "none is left");
    drop(held);
    assert_eq!((pool.in_use(), second.in_use()), (0, 0));
}

fn the_reserve_is_left(pool: &Mempool) {
    let reserve = 500;
    let mut handle = PoolHandle::new(pool, reserve);
    let mut taken = Vec::new();
    while let Some(frame) = handle.alloc(64) {
        taken.push(frame);
    }
    let left = pool.available();
    // Mbufs in this thread's cache do not count as free: up to 1.5 times
    // 32 mbufs more than the reserve may stay.
    assert!((reserve..=reserve + 48 + STRIDE).contains(&left), "{left} left of {reserve}");
    let rx: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(rx.len() as u32, left, "RX finds the reserve");
    drop(rx);
    assert!(handle.alloc(64).is_none());
    taken.clear();
    assert!(handle.alloc(64).is_some(), "the pool recovered");
    assert_eq!(pool.in_use(), 0);
}

fn lengths_have_a_limit(pool: &Mempool) {
    let mut handle = PoolHandle::new(pool, 0);
    assert_eq!(handle.alloc(2048).expect("fits").bytes().len(), 2048);
    assert!(handle.alloc(2049).is_none());
    let mut frame = frame(pool, 100, 1);
    assert_eq!(frame.capacity(), 2048);
    let start = frame.bytes()[..50].to_vec();
    assert!(!frame.resize(2049));
    assert_eq!(frame.bytes().len(), 100, "unchanged");
    assert!(frame.resize(50));
    assert_eq!(frame.bytes(), start);
}

fn headers_go_into_the_headroom(pool: &Mempool) {
    const HEADROOM: usize = 128;
    let mut frame = frame(pool, 100, 1);
    let payload = frame.bytes().to_vec();
    let place = frame.bytes().as_ptr();

    assert!(frame.grow_front(26) && frame.grow_front(0));
    frame.bytes_mut()[..26].fill(7);
    assert_eq!(frame.bytes(), [&[7; 26][..], &payload].concat());
    assert_eq!(frame.bytes()[26..].as_ptr(), place, "the payload isn't moved");
    assert_eq!(frame.capacity(), 2048 + 26);
    // A copy that another thread makes has a headroom of its own.
    let shared = frame.share();
    let mut copy = shared.copy().expect("a free mbuf");
    assert_eq!(copy.bytes(), shared.bytes());
    copy.shrink_front(26);
    assert_eq!(copy.bytes(), payload);
    assert!(copy.grow_front(HEADROOM + 26), "no more than there is");

    let mut frame = support::frame(pool, 100, 1);
    assert!(!frame.grow_front(HEADROOM + 1) && !frame.grow_front(usize::MAX));
    assert_eq!(frame.bytes(), payload, "unchanged");
    assert!(frame.grow_front(HEADROOM) && !frame.grow_front(1));
    assert_eq!(frame.bytes().len(), HEADROOM + 100);
    frame.shrink_front(HEADROOM + 100);
    assert!(frame.bytes().is_empty());
    let too_much = std::panic::AssertUnwindSafe(|| frame.shrink_front(1));
    assert!(std::panic::catch_unwind(too_much).is_err());
    // The buffer of a freed frame begins anew.
    drop((shared, copy, frame));
    assert_eq!(pool.alloc().expect("a free mbuf").capacity(), 2048);
    assert_eq!(pool.in_use(), 0);
}

fn only_registered_threads_have_a_cache(eal: &Eal) {
    let config = PoolConfig {
        name: "cached".into(),
        mbufs: 255,
        cache: 64,
        data_room: 128,
        numa_node: None,
    };
    let pool = Mempool::new(eal, &config).unwrap();
    // After one allocation the rest of a refill sits in the thread's cache,
    // where another thread doesn't find it.
    let reachable = |register: bool| {
        let taker = || {
            let guard = register.then(|| LcoreGuard::register(eal).unwrap());
            drop(pool.alloc());
            thread::scope(|s| {
                let others =
                    s.spawn(|| std::iter::from_fn(|| pool.alloc()).collect::<Vec<_>>().len());
                let n = others.join().unwrap();
                drop(guard);
                n
            })
        };
        thread::scope(|s| s.spawn(taker).join().unwrap())
    };
    assert_eq!(reachable(false), 255);
    assert!(reachable(true) < 255);
    assert_eq!(pool.in_use(), 0, "what is in a cache is free");
}

fn a_thread_can_be_pinned(eal: &Eal) {
    let cpu = allowed_cpus()[0];
    let pinned = thread::scope(|s| {
        let worker = s.spawn(|| {
            let guard = LcoreGuard::register(eal).unwrap();
            let error = guard.pin(100_000).unwrap_err().to_string();
            assert!(error.contains("cannot run on CPU 100000"), "{error}");
            guard.pin(cpu).unwrap();
            allowed_cpus()
        });
        worker.join().unwrap()
    });
    assert_eq!(pinned, [cpu]);
    let main = LcoreGuard::register(eal).unwrap();
    assert_eq!(main.id(), 0, "the thread that started DPDK has its id already");
}

fn frames_travel_between_threads(eal: &Eal, pool: &Mempool) {
    let shared = frame(pool, 500, 9).share();
    let bytes = shared.bytes().to_vec();
    let workers: Vec<_> = (0..2).map(|_| shared.clone()).collect();
    thread::scope(|s| {
        for mine in workers {
            let bytes = &bytes;
            s.spawn(move || {
                let _guard = LcoreGuard::register(eal).unwrap();
                for _ in 0..10_000 {
                    let twin = mine.clone();
                    assert_eq!(twin.bytes().len(), bytes.len());
                }
                assert_eq!(mine.bytes(), bytes);
            });
        }
    });
    assert_eq!(shared.owners(), 1);
    drop(shared);
    assert_eq!(pool.in_use(), 0);
}

/// Each mbuf is free once, or taken once, whichever thread took and freed it.
fn what_one_thread_frees_another_one_gets(eal: &Eal, pool: &Mempool) {
    let (to_second, at_second) = mpsc::channel::<Vec<Mbuf>>();
    let (to_first, at_first) = mpsc::channel::<Vec<Mbuf>>();
    let turns = |seed: usize, to: mpsc::Sender<Vec<Mbuf>>, from: mpsc::Receiver<Vec<Mbuf>>| {
        let _guard = LcoreGuard::register(eal).unwrap();
        for turn in 0..3000 {
            let wanted = (turn * 37 + seed * 101) % 1500;
            let mut frames: Vec<_> = std::iter::from_fn(|| pool.alloc()).take(wanted).collect();
            for mine in &mut frames {
                assert!(mine.resize(1));
                mine.bytes_mut()[0] = seed as u8;
            }
            for mine in &frames {
                assert_eq!(mine.bytes(), [seed as u8], "nobody else has it");
            }
            // The other thread frees them, or this one; the other may have ended.
            match turn % 3 {
                0 => drop(to.send(frames)),
                _ => drop(frames),
            }
            drop(from.try_recv());
        }
    };
    thread::scope(|s| {
        s.spawn(|| turns(1, to_second, at_first));
        s.spawn(|| turns(2, to_first, at_second));
    });
    assert_eq!((pool.in_use(), pool.available()), (0, 2047));
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    let places: BTreeSet<_> = all.iter().map(|frame| frame.bytes().as_ptr()).collect();
    // The caches of both threads keep up to 1.5 times 32.
    assert!(all.len() >= 2047 - 2 * 48 && places.len() == all.len(), "{}", all.len());
}

fn the_clock_keeps_the_time_of_day(eal: &Eal) {
    let clock = eal.clock();
    let (wall, start) = (std::time::Instant::now(), clock.now());
    thread::sleep(Duration::from_millis(200));
    let (real, ours) = (wall.elapsed().as_secs_f64(), clock.now().since(start).as_secs_f64());
    assert!((real - ours).abs() < 0.002, "{real} s passed, and {ours} s by the clock");
    let later = eal.clock().now();
    assert!(later >= start, "all clocks have one origin");
}

fn owners_are_counted(pool: &Mempool) {
    let first = frame(pool, 64, 0).share();
    let others: Vec<_> = (0..1000).map(|_| first.clone()).collect();
    assert_eq!(first.owners(), 1001);
    assert_eq!(pool.in_use(), 1);
    drop(others);
    assert_eq!(first.owners(), 1);
    let copy = first.copy().unwrap();
    assert_eq!(copy.bytes(), first.bytes());
    assert_ne!(copy.bytes().as_ptr(), first.bytes().as_ptr());
    drop((first, copy));
    assert_eq!(pool.in_use(), 0);
}
