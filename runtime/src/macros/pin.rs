//! `pin!`: pins futures to the stack.

/// Pins values to the stack of the surrounding function or async block.
///
/// After `pin!(x)`, `x` is a `Pin<&mut T>` of the value that `x` was. A future that is not [`Unpin`], such as
/// that of an `async fn`, must be pinned before `&mut x` can be awaited or given to
/// [`select!`](crate::select). A future that is awaited by value needs no pinning.
///
/// [`std::pin::pin!`] is an expression and does the same for one value. This macro takes several variables,
/// and can also declare them (see below). It is safe, because the program cannot name the value any more.
///
/// # Examples
/// One future, polled in every round of a loop until it is ready:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// async fn three_turns() -> u32 {
///     for _ in 0..3 {
///         runtime::task::yield_now().await;
///     }
///     3
/// }
///
/// let turns = three_turns();
/// runtime::pin!(turns);
///
/// let mut others = 0;
/// let turns = loop {
///     runtime::select! {
///         turns = &mut turns => break turns,
///         _ = runtime::task::yield_now() => others += 1,
///     }
/// };
/// assert_eq!(turns, 3);
/// # });
/// ```
/// Several variables, and declarations:
/// ```
/// # runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let a = async { 1 };
/// let b = async { 2 };
/// runtime::pin!(a, b);
///
/// runtime::pin! {
///     let c = async { 3 };
///     let d = async { 4 };
/// }
/// assert_eq!(runtime::join!(a, b, c, d), (1, 2, 3, 4));
/// # });
/// ```
/// The value must be in a variable. For an expression, use the second form or [`std::pin::pin!`]:
/// ```compile_fail
/// runtime::pin!(async { 1 });
/// ```
#[macro_export]
macro_rules! pin {
    ($($variable:ident),* $(,)?) => { $(
        #[allow(unused_mut)]
        let mut $variable = ::core::pin::pin!($variable);
    )* };
    ($(let $variable:ident = $value:expr;)*) => { $(
        // In a `let` of its own, so that temporaries that it borrows live as long as in any other `let`.
        let $variable = $value;
        $crate::pin!($variable);
    )* };
}
