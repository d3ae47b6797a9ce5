//! `join!` and `try_join!`: wait for all branches.
//!
//! A branch keeps its output in a [`MaybeDone`](super::maybe_done::MaybeDone). A poll goes through the
//! branches in a circle. Each poll begins one branch further on. The first branches may use up the task's
//! budget, and then the others only return `Pending`. So each branch must be first from time to time.

/// Waits for several futures at once, in one task, until all of them are ready.
///
/// Takes expressions of type [`IntoFuture`](std::future::IntoFuture) and gives the tuple of their outputs. It
/// must be used where `.await` can be. All futures run in the calling task: concurrently, but not in
/// parallel. For parallel work, [`spawn`](crate::spawn) each future and join the handles.
///
/// Every poll of the task polls all futures that are not ready yet. Each poll begins with another future, so
/// that all of them get their share of the task's [budget](crate::task::coop). `biased;` in front polls the
/// futures in the given order instead. This is a little cheaper, and is for futures that depend on the order.
/// An early future that is always ready may then keep the later ones from making progress.
///
/// # Cancel safety
/// Dropping the future drops all futures, and the outputs of those that were ready.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// async fn double(n: u32) -> u32 {
///     runtime::task::yield_now().await;
///     2 * n
/// }
///
/// let (a, b) = runtime::join!(double(1), double(2));
/// assert_eq!((a, b), (2, 4));
/// # });
/// ```
/// In the given order:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::cell::Cell;
///
/// let counter = Cell::new(0);
/// let next = async || counter.replace(counter.get() + 1);
/// assert_eq!(runtime::join!(biased; next(), next(), next()), (0, 1, 2));
/// # });
/// ```
#[macro_export]
macro_rules! join {
    ($(biased;)?) => { async {}.await };
    (biased; $($future:expr),+ $(,)?) => { $crate::__join!(@read join in_order {} $($future,)+) };
    ($($future:expr),+ $(,)?) => { $crate::__join!(@read join in_turn {} $($future,)+) };
}

/// Waits for several futures at once, in one task, until all of them succeed or the first one fails.
///
/// Takes expressions of type [`IntoFuture`](std::future::IntoFuture) whose outputs are `Result`s with one
/// error type. Gives `Ok` with the tuple of their values. As soon as one future fails, it gives `Err` with
/// its error, and drops the other futures and the values that were ready.
///
/// Everything else is as with [`join!`](crate::join), also `biased;`. If several futures fail in the same
/// poll, the future that was polled first decides. Without `biased;` this may be any of them.
///
/// A spawned task goes on when its handle is dropped. Abort the task if it must end, too.
///
/// # Cancel safety
/// Dropping the future drops all futures, and the outputs of those that were ready.
///
/// # Examples
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// async fn parse(text: &str) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
///
/// assert_eq!(runtime::try_join!(parse("1"), parse("2")), Ok((1, 2)));
/// assert!(runtime::try_join!(parse("1"), parse("two")).is_err());
/// # });
/// ```
/// The first error ends the wait, even if another future never would:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let result = runtime::try_join!(
///     std::future::pending::<Result<(), &str>>(),
///     async { Err::<(), _>("connection refused") },
/// );
/// assert_eq!(result, Err("connection refused"));
/// # });
/// ```
#[macro_export]
macro_rules! try_join {
    ($(biased;)?) => { async { ::core::result::Result::Ok(()) }.await };
    (biased; $($future:expr),+ $(,)?) => { $crate::__join!(@read try_join in_order {} $($future,)+) };
    ($($future:expr),+ $(,)?) => { $crate::__join!(@read try_join in_turn {} $($future,)+) };
}

/// Reads the branches of `join!` or `try_join!`, gives each a name, and emits the code.
///
/// `in_order` polls them in the given order. `in_turn` begins with another branch each time.
#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    (@read $kind:ident $order:ident {$($done:tt)*} $init:expr, $($rest:tt)*) => {
        $crate::__join!(@read $kind $order {$($done)* future = $init,} $($rest)*)
    };
    (@read $kind:ident $order:ident {$($future:ident = $init:expr,)+}) => {{
        // Each in a `let` of its own, so that `&mut temporary()` lives as long as in any other `let`.
        $( let $future = $init; )+
        $( let mut $future = ::core::pin::pin!($crate::__private::maybe_done($future)); )+
        $crate::__join!(@wait $kind $order $($future)+).await
    }};

    (@wait $kind:ident in_order $($future:ident)+) => {
        ::core::future::poll_fn(move |cx| {
            let mut is_pending = false;
            $( $crate::__join!(@poll $kind $future cx is_pending); )+
            $crate::__join!(@end $kind is_pending $($future)+)
        })
    };
    (@wait $kind:ident in_turn $($future:ident)+) => {{
        let mut first = 0_u32;
        ::core::future::poll_fn(move |cx| {
            let mut is_pending = false;
            let mut branch = 0_u32;
            // The branches from `first` on, then the branches before it.
            for is_second_pass in [false, true] {
                branch = 0;
                $(
                    if (branch < first) == is_second_pass {
                        $crate::__join!(@poll $kind $future cx is_pending);
                    }
                    branch += 1;
                )+
            }
            first = (first + 1) % branch;
            $crate::__join!(@end $kind is_pending $($future)+)
        })
    }};

    (@end $kind:ident $is_pending:ident $($future:ident)+) => {{
        if $is_pending {
            return ::core::task::Poll::Pending;
        }
        // With an output type without values, this is never reached.
        #[allow(unreachable_code)]
        ::core::task::Poll::Ready($crate::__join!(@outputs $kind $($future)+))
    }};

    (@poll join $future:ident $cx:ident $is_pending:ident) => {
        $is_pending |= $future.as_mut().poll_done($cx).is_pending()
    };
    (@poll try_join $future:ident $cx:ident $is_pending:ident) => {
        match $future.as_mut().poll_ok($cx) {
            ::core::task::Poll::Ready(::core::result::Result::Ok(())) => {}
            ::core::task::Poll::Ready(::core::result::Result::Err(error)) => {
                return ::core::task::Poll::Ready(::core::result::Result::Err(error));
            }
            ::core::task::Poll::Pending => $is_pending = true,
        }
    };

    (@outputs join $($future:ident)+) => { ($($future.as_mut().take(),)+) };
    (@outputs try_join $($future:ident)+) => {
        ::core::result::Result::Ok(($($future.as_mut().take_ok(),)+))
    };
}
