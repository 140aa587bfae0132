//! Methods that the harnesses of both pipelines share. Their types differ, so macros write them.

/// A recorder keeps its books in a field `books`.
#[macro_export]
macro_rules! account {
    ($recorder:ty) => {
        impl $crate::books::Ledger for $recorder {
            fn check<const N: usize>(&self, budgets: [&common::budget::Budget; N]) {
                self.books.check(budgets);
            }
        }

        impl $crate::books::Account for $recorder {
            fn books(&self) -> &$crate::books::Books {
                &self.books
            }

            fn books_mut(&mut self) -> &mut $crate::books::Books {
                &mut self.books
            }
        }
    };
}

/// The calls of a harness that lends these fields to its flow; frames are held in `budgets`.
macro_rules! harness {
    (lends: $($lent:ident),*; budgets: $($budget:ident),*) => {
        impl<F: Frame, A: Actions<F> + Ledger> Harness<F, A> {
            /// Calls the flow, and checks the books.
            ///
            /// # Panics
            /// If a frame got lost.
            #[inline]
            pub fn with<R>(
                &mut self,
                event: impl FnOnce(&mut Flow<F>, &mut Context<'_, A>) -> R,
            ) -> R {
                let (now, config, out) = (self.now, &self.config, &mut self.out);
                let mut cx = Context { now, config, $($lent: &mut self.$lent,)* out };
                let result = event(&mut self.flow, &mut cx);
                self.out.check([$(&self.$budget),*]);
                result
            }
        }

        impl<A: Actions<HeapFrame> + Account> Harness<HeapFrame, A> {
            /// A request arrives.
            pub fn frame(&mut self, bytes: Vec<u8>) {
                let roce = parse(&bytes).expect("a RoCEv2 frame");
                self.out.books_mut().entered += 1;
                self.with(|flow, cx| flow.on_data(cx, HeapFrame::from(bytes), &roce));
            }

            /// Full packets arrive.
            pub fn data(&mut self, psns: impl IntoIterator<Item = i32>) {
                for n in psns {
                    self.frame($crate::flow::write(n));
                }
            }

            /// The last packets of WRITEs with these PSNs, which ask for ACKs, arrive.
            pub fn ask(&mut self, psns: impl IntoIterator<Item = i32>) {
                for n in psns {
                    self.frame($crate::flow::asking(n));
                }
            }

            /// The value of a counter.
            pub fn count(&self, metric: Metric) -> u64 {
                self.out.books().counters.get(metric)
            }
        }
    };
}

pub(crate) use harness;
